"""Who hears what a rewritten function reports: the probes of the thread it runs in.

Code that any thread may run looks up what its thread follows. The copy of a watched function that runs for one probe
alone knows it, which is faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
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
    """What one thread follows now: the variables, and the probes that are told."""

    probes: tuple[Probe, ...]
    patterns: Patterns

    def report(self, point: Point, value: Any, frame: FrameType, *, own: bool = False) -> None:
        """Tell the probes."""
        if not self.patterns.wanted(point.name) and point.name:
            return
        for probe in self.probes:
            if not probe.paused:
                probe.tracker.report(point, value, frame, self.patterns, own=own)


class Threads(dict[int, Following]):
    """What each thread follows."""

    @contextmanager
    def follow(self, probes: tuple[Probe, ...], patterns: tuple[str, ...]) -> Iterator[Following]:
        """Follow these variables in this thread, besides those that are followed already."""
        ident = get_ident()
        outer = self.get(ident)
        every = patterns if outer is None else tuple(dict.fromkeys((*outer.patterns.patterns, *patterns)))
        self[ident] = following = Following(probes, patterns_of(every))
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


threads = Threads()


def make_general(watched: str | None = None) -> Callable[[Point], Reporter]:
    """Reporters for code that any thread may run; `watched` is the name of the function if its arguments are told."""
    get = threads.get

    def reporter(point: Point) -> Reporter:
        own = point.function == watched

        def report(value: Any) -> None:
            following = get(get_ident())
            if following is not None:
                following.report(point, value, _getframe(1), own=own)

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
