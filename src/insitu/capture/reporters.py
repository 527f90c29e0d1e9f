"""Who hears what a rewritten function reports: the probes of the thread it runs in.

Code that any thread may run looks up what its thread follows. The copy of a watched function that runs for one probe
alone knows it, which is faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from insitu.capture.inside import Patterns, patterns_of
from insitu.capture.tape import VariableNote
from insitu.capture.variables import NUMBERS, make_fast, make_fast_maybe
from insitu.follow.rewrite import Point, Reporter, Shortcut

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe


@dataclass(frozen=True, slots=True)
class Following:
    """What one thread follows now: the variables, and which of them each probe is told."""

    told: tuple[tuple[Probe, Patterns], ...]
    patterns: Patterns

    def report(self, point: Point, value: Any, frame: FrameType, *, own: bool = False) -> None:
        """Tell the probes."""
        for probe, patterns in self.told:
            if not probe.paused and (not point.name or patterns.wanted(point.name)):
                probe.tracker.report(point, value, frame, patterns, own=own)


class Threads(dict[int, Following]):
    """What each thread follows."""

    @contextmanager
    def follow(self, probes: tuple[Probe, ...], patterns: tuple[str, ...]) -> Iterator[Following]:
        """Let these probes follow these variables in this thread, besides those that they follow already."""
        ident = get_ident()
        outer = self.get(ident)
        self[ident] = following = Following(*joined(outer, probes, patterns))
        for probe in probes:
            probe.follows += 1
        try:
            yield following
        finally:
            for probe in probes:
                probe.follows -= 1
                if not probe.follows and not probe.suspended:
                    probe.tracker.forget()
            if outer is None:
                del self[ident]
            else:
                self[ident] = outer


def joined(outer: Following | None, probes: tuple[Probe, ...], patterns: tuple[str, ...]) -> Any:
    """Which variables each probe follows when these begin to follow some, and all of them together."""
    before = {} if outer is None else {id(probe): (probe, known.patterns) for probe, known in outer.told}
    now = {id(probe): (probe, (*before.get(id(probe), (probe, ()))[1], *patterns)) for probe in probes}
    told = tuple((probe, patterns_of(unique(names))) for probe, names in (before | now).values())
    return told, patterns_of(unique(name for _, known in told for name in known.patterns))


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, each once."""
    return tuple(dict.fromkeys(names))


threads = Threads()
# Who hears the reports of all threads: recordings of values.
hearers: list[Callable[[Point, Any, FrameType], None]] = []


# The functions whose arguments are told when they are called, by file and name: they are watched.
told_as_arguments: set[tuple[str, str]] = set()


def make_general() -> Callable[[Point], Reporter]:
    """Reporters for code that any thread may run."""
    get = threads.get

    def reporter(point: Point) -> Reporter:
        own = (point.file, point.function) in told_as_arguments

        def report(value: Any) -> None:
            following = get(get_ident())
            if following is not None:
                following.report(point, value, _getframe(1), own=own)
            for hearer in hearers:
                hearer(point, value, _getframe(1))

        return report

    return reporter


def make_shortcut(probe: Probe, patterns: Patterns, code: CodeType) -> Shortcut:
    """For the local variables of one watched function that runs for one probe: numbers go straight to the tape."""
    local = set(code.co_varnames) - set(code.co_cellvars)
    return Shortcut(
        lambda name: name in local and patterns.is_plain(name),
        NUMBERS,
        probe.tape.append,
        lambda point: VariableNote(point, point.name, None),
    )


def make_reporter(probe: Probe, patterns: Patterns, code: CodeType) -> Callable[[Point], Reporter]:
    """Reporters for one watched function that runs for one probe, in the thread of that probe.

    Its nested functions may run several at once, variables that it shares may change elsewhere, and what is inside of
    one must be looked at: there, every report is compared at once.
    """
    append, track, function = probe.tape.append, probe.tracker.report, code.co_qualname
    local = set(code.co_varnames) - set(code.co_cellvars)

    def reporter(point: Point) -> Reporter:
        def careful(value: Any, frame: FrameType) -> None:
            track(point, value, frame, patterns, own=point.function == function)

        simple = point.function == function and point.name in local and patterns.is_plain(point.name)
        if not simple or point.moment == "deleted":
            return lambda value: careful(value, _getframe(1))
        if point.moment == "maybe":
            return make_fast_maybe(careful)
        return make_fast(VariableNote(point, point.name, None), append, careful)

    return reporter
