"""Who hears the reports of a rewritten function: the probes of the thread that it runs in.

Code that any thread may run looks up the audience of its thread. The copy of a watched function that runs for one probe
only knows that probe, which is faster.
"""

from __future__ import annotations

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
from insitu.capture.variables.follow.report_plan import NO_EXTRAS, Extras
from insitu.capture.variables.follow.rewrite import Reporter, ReportPoint, Shortcut, rewrite
from insitu.capture.variables.patterns import VariablePatterns, patterns_of
from insitu.capture.variables.variable_tracker import is_number
from insitu.operating_system import at_fork

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe


@dataclass(frozen=True, slots=True)
class Audience:
    """The variables that one thread follows now, and the probes that hear of them, each with its own patterns."""

    listeners: tuple[tuple[Probe, VariablePatterns], ...]
    patterns: VariablePatterns

    def report(self, point: ReportPoint, value: Any, frame: FrameType, *, own: bool = False) -> None:
        """Report a variable to the probes that follow it; a point without a name says that a function begins."""
        for probe, patterns in self.listeners:
            if not probe.paused and (not point.name or patterns.wanted(point.name)):
                probe.tracker.report(point, value, frame, patterns, own=own)


@dataclass(eq=False, slots=True)
class Subscription:
    """The variables that some probes follow while a watched call or a block runs."""

    probes: tuple[Probe, ...]
    patterns: tuple[str, ...]


class Audiences(dict[int, Audience]):
    """The audience of each thread: all its subscriptions, which may end in any order."""

    def __init__(self) -> None:
        self._subscriptions: dict[int, list[Subscription]] = {}

    @contextmanager
    def follow(self, probes: tuple[Probe, ...], patterns: tuple[str, ...]) -> Iterator[Audience]:
        """Let these probes follow these variables in this thread, and those that they follow already."""
        ident, subscription = get_ident(), Subscription(probes, patterns)
        self._subscriptions.setdefault(ident, []).append(subscription)
        for probe in probes:
            probe.follows += 1
        try:
            yield self._update(ident)
        finally:
            for probe in probes:
                probe.follows -= 1
                if not probe.follows and not probe.suspended:
                    probe.tracker.forget()
            others = [other for other in self._subscriptions.get(ident, ()) if other is not subscription]
            self._subscriptions[ident] = others
            self._update(ident)

    def _update(self, ident: int) -> Audience:
        """Make the audience of a thread anew from its subscriptions."""
        subscriptions = self._subscriptions[ident]
        audience = audience_of(subscriptions[0]) if len(subscriptions) == 1 else joint_audience(subscriptions)
        if subscriptions:
            self[ident] = audience
        else:
            self.pop(ident, None)
            del self._subscriptions[ident]
        return audience

    def abandon(self) -> None:
        """This process is the child of a fork: the other threads are not here."""
        self.clear()
        self._subscriptions.clear()


def audience_of(subscription: Subscription) -> Audience:
    """The audience of one subscription."""
    patterns = patterns_of(subscription.patterns)
    return Audience(tuple((probe, patterns) for probe in subscription.probes), patterns)


def joint_audience(subscriptions: list[Subscription]) -> Audience:
    """The audience of several subscriptions: a probe that has several gets the patterns of all."""
    names: dict[int, tuple[Probe, list[str]]] = {}
    for subscription in subscriptions:
        for probe in subscription.probes:
            names.setdefault(id(probe), (probe, []))[1].extend(subscription.patterns)
    listeners = tuple((probe, patterns_of(unique(found))) for probe, found in names.values())
    return Audience(listeners, patterns_of(unique(name for _, known in listeners for name in known.patterns)))


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, each once."""
    return tuple(dict.fromkeys(names))


audiences = Audiences()
at_fork(after_in_child=audiences.abandon)
# Recordings of values hear the reports of all threads.
recordings: list[Callable[[ReportPoint, Any, FrameType], None]] = []
at_fork(after_in_child=recordings.clear)
# The file and the name of each watched function: its call has its arguments, so no record is needed for them.
watched_places: set[tuple[str, str]] = set()


# The reports that no probe needs.
FOR_RECORDINGS = ("pass", "defined", "left")


def recordings_reporter(point: ReportPoint) -> Reporter:
    """A reporter that only recordings hear."""

    def report(value: Any) -> None:
        for hear in recordings:
            hear(point, value, _getframe(1))

    return report


def make_thread_reporter() -> Callable[[ReportPoint], Reporter]:
    """Reporters for code that any thread may run."""
    get = audiences.get

    def reporter(point: ReportPoint) -> Reporter:
        if point.moment in FOR_RECORDINGS:
            return recordings_reporter(point)
        own = (point.file, point.function) in watched_places

        def report(value: Any) -> None:
            audience = get(get_ident())
            if audience is not None:
                audience.report(point, value, _getframe(1), own=own)
            for hear in recordings:
                hear(point, value, _getframe(1))

        return report

    return reporter


def rewritten(
    code: CodeType,
    patterns: VariablePatterns,
    reporter: Callable[[ReportPoint], Reporter],
    shortcut: Shortcut | None = None,
    extras: Extras = NO_EXTRAS,
) -> CodeType:
    """The code of a function with reports. Dynamo must pass over the functions nested in it: it cannot compile them."""
    new = rewrite(code, patterns.wanted, reporter, shortcut, extras)
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


def make_reporter(probe: Probe, patterns: VariablePatterns, code: CodeType) -> Callable[[ReportPoint], Reporter]:
    """Reporters for one watched function that runs for one probe, in the thread of that probe.

    Its nested functions may run in any thread at any time, the variables that it shares with them may change there,
    and patterns may name parts of a variable: in these cases every report is compared at once.
    """
    extend, track, function = probe.tape.extend, probe.tracker.report, code.co_qualname
    local, general = local_names(code), make_thread_reporter()

    def reporter(point: ReportPoint) -> Reporter:
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
