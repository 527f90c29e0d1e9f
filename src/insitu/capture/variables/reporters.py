"""Who hears what a rewritten function reports: the probes of the thread it runs in.

Code that any thread may run looks up what its thread follows. The copy of a watched function that runs for one probe
alone knows it, which is faster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from insitu.capture.modes import never_compile
from insitu.capture.tape import VariableEntry
from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.rewrite import Point, Reporter, Shortcut, rewrite
from insitu.capture.variables.patterns import VariablePatterns, patterns_of
from insitu.capture.variables.variable_tracker import is_number

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe


@dataclass(frozen=True, slots=True)
class Audience:
    """What one thread follows now: the variables, and which of them each probe is told."""

    told: tuple[tuple[Probe, VariablePatterns], ...]
    patterns: VariablePatterns

    def report(self, point: Point, value: Any, frame: FrameType, *, own: bool = False) -> None:
        """Tell the probes."""
        for probe, patterns in self.told:
            if not probe.paused and (not point.name or patterns.wanted(point.name)):
                probe.tracker.report(point, value, frame, patterns, own=own)


@dataclass(eq=False, slots=True)
class Subscription:
    """What some probes are to be told while a watched call or a block runs."""

    probes: tuple[Probe, ...]
    patterns: tuple[str, ...]


class Audiences(dict[int, Audience]):
    """What each thread follows: all the wishes that it has now, which may end in any order."""

    def __init__(self) -> None:
        self._wishes: dict[int, list[Subscription]] = {}

    @contextmanager
    def follow(self, probes: tuple[Probe, ...], patterns: tuple[str, ...]) -> Iterator[Audience]:
        """Let these probes follow these variables in this thread, besides those that they follow already."""
        ident, wish = get_ident(), Subscription(probes, patterns)
        self._wishes.setdefault(ident, []).append(wish)
        for probe in probes:
            probe.follows += 1
        try:
            yield self._settle(ident)
        finally:
            for probe in probes:
                probe.follows -= 1
                if not probe.follows and not probe.suspended:
                    probe.tracker.forget()
            self._wishes[ident] = [other for other in self._wishes.get(ident, ()) if other is not wish]
            self._settle(ident)

    def _settle(self, ident: int) -> Audience:
        wishes = self._wishes[ident]
        if len(wishes) == 1:  # mostly
            patterns = patterns_of(wishes[0].patterns)
            following = self[ident] = Audience(tuple((probe, patterns) for probe in wishes[0].probes), patterns)
            return following
        names: dict[int, tuple[Probe, list[str]]] = {}
        for wish in wishes:
            for probe in wish.probes:
                names.setdefault(id(probe), (probe, []))[1].extend(wish.patterns)
        told = tuple((probe, patterns_of(unique(found))) for probe, found in names.values())
        following = Audience(told, patterns_of(unique(name for _, known in told for name in known.patterns)))
        if told:
            self[ident] = following
        else:
            self.pop(ident, None)
            del self._wishes[ident]
        return following

    def abandon(self) -> None:
        """This process is the child of a fork: the other threads are not here."""
        self.clear()
        self._wishes.clear()


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, each once."""
    return tuple(dict.fromkeys(names))


audiences = Audiences()
os.register_at_fork(after_in_child=audiences.abandon)
# Who hears the reports of all threads: recordings of values.
recordings: list[Callable[[Point, Any, FrameType], None]] = []
os.register_at_fork(after_in_child=recordings.clear)


# The functions whose arguments are told when they are called, by file and name: they are watched.
watched_places: set[tuple[str, str]] = set()


def make_general() -> Callable[[Point], Reporter]:
    """Reporters for code that any thread may run."""
    get = audiences.get

    def reporter(point: Point) -> Reporter:
        own = (point.file, point.function) in watched_places

        def report(value: Any) -> None:
            following = get(get_ident())
            if following is not None:
                following.report(point, value, _getframe(1), own=own)
            for hearer in recordings:
                hearer(point, value, _getframe(1))

        return report

    return reporter


def reporting(
    code: CodeType,
    patterns: VariablePatterns,
    reporter: Callable[[Point], Reporter],
    shortcut: Shortcut | None = None,
) -> CodeType:
    """The code of a function, rewritten. What is nested in it may be compiled once it is out of our hands: dynamo
    cannot, and passes over it."""
    new = rewrite(code, patterns.wanted, reporter, shortcut)
    if new is not code:
        for inner in nested_codes(new):
            never_compile(inner)
    return new


def local_names(code: CodeType) -> set[str]:
    """The variables of a function that no other one can bind."""
    return set(code.co_varnames) - set(code.co_cellvars)


def make_shortcut(probe: Probe, patterns: VariablePatterns, code: CodeType) -> Shortcut:
    """For the local variables of one watched function that runs for one probe: numbers go straight to the tape."""
    local = local_names(code)
    return Shortcut(
        lambda name: name in local and patterns.is_plain(name),
        (float, int),
        probe.tape.extend,
        lambda point: VariableEntry(point, point.name, None),
    )


def make_reporter(probe: Probe, patterns: VariablePatterns, code: CodeType) -> Callable[[Point], Reporter]:
    """Reporters for one watched function that runs for one probe, in the thread of that probe.

    Its nested functions may run anywhere and at any time; variables that it shares may change elsewhere, and what is
    inside of one must be looked at: there, every report is compared at once.
    """
    extend, track, function = probe.tape.extend, probe.tracker.report, code.co_qualname
    local, general = local_names(code), make_general()

    def reporter(point: Point) -> Reporter:
        if point.function != function:
            return general(point)
        is_simple = point.name in local and patterns.is_plain(point.name) and point.moment != "deleted"
        entry = VariableEntry(point, point.name, None)

        def report(value: Any) -> None:
            if not is_simple or not is_number(value):
                track(point, value, _getframe(1), patterns, own=True)
            elif point.moment != "maybe":  # a number that was not bound again cannot have changed
                extend((entry, value))

        return report

    return reporter
