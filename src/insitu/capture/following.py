"""Which variables are followed where: watched functions run rewritten, and so does what they call.

A watched function runs as a copy with reports in it. The functions it can reach, as far as they have a variable of a
wanted name, get rewritten code for as long as a watched call runs, in whatever thread; in other threads their reports
find nobody. Where there is no source, the lines are followed instead.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from insitu.capture.inside import Patterns, patterns_of
from insitu.capture.tape import VariableNote
from insitu.capture.variables import make_fast, make_fast_maybe
from insitu.errors import tell
from insitu.follow.callees import callees
from insitu.follow.definitions import NoSource
from insitu.follow.lines import LineFollower
from insitu.follow.rewrite import Point, Reporter, known_names, rewrite
from insitu.trace.path import suggestion

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe
GENERATORS = 0x20 | 0x80 | 0x200


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


def variant(function: FunctionType, following: Following, kept: dict[Any, FunctionType]) -> FunctionType:
    """A copy of a function that reports the variables; `kept` holds those that can be used again."""
    probes, patterns = following.probes, following.patterns
    fast = len(probes) == 1 and probes[0].live is None and not function.__code__.co_flags & GENERATORS
    held = probes[0].variants if fast else kept
    key = (id(function.__code__), patterns.patterns)
    copy = held.get(key)
    if copy is None:
        code = function.__code__
        reporter = make_reporter(probes[0], patterns, code) if fast else make_general(code.co_qualname)
        copy = held[key] = with_code(function, rewrite(code, patterns.wanted, reporter))
    copy.__defaults__, copy.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return copy


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A copy of a function with other code."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__dict__.update(function.__dict__)
    return copy


class Swaps:
    """The functions whose code is replaced while somebody follows their variables."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users: dict[int, list[tuple[str, ...]]] = {}
        self._originals: dict[int, tuple[FunctionType, CodeType]] = {}
        self._codes: dict[tuple[int, frozenset[str]], tuple[CodeType, CodeType]] = {}

    @contextmanager
    def swapped(self, functions: list[FunctionType], patterns: tuple[str, ...]) -> Iterator[None]:
        """Let these functions report these variables."""
        with self._lock:
            for function in functions:
                self._originals.setdefault(id(function), (function, function.__code__))
                self._users.setdefault(id(function), []).append(patterns)
                self._settle(function)
        try:
            yield
        finally:
            with self._lock:
                for function in functions:
                    self._users[id(function)].remove(patterns)
                    self._settle(function)

    def _settle(self, function: FunctionType) -> None:
        _, original = self._originals[id(function)]
        names = frozenset(name for patterns in self._users[id(function)] for name in patterns)
        function.__code__ = self._code(original, names) if names else original
        if not names:
            del self._originals[id(function)], self._users[id(function)]

    def _code(self, original: CodeType, names: frozenset[str]) -> CodeType:
        key = (id(original), names)
        if key not in self._codes:
            with suppress(NoSource):
                new = rewrite(original, patterns_of(tuple(sorted(names))).wanted, make_general())
                self._codes[key] = (original, new)  # the original is held so that its id stays its own
                return new
            self._codes[key] = (original, original)
        return self._codes[key][1]


swaps = Swaps()


class Reach:
    """What a watched function can call, as far as it has variables of the wanted names; found at the first call."""

    def __init__(self, function: Any, name: str) -> None:
        self._function = function
        self._name = name
        self._found: dict[tuple[int, tuple[str, ...]], list[FunctionType]] = {}
        self._told: set[str] = set()

    def functions(self, receiver: Any, patterns: Patterns) -> list[FunctionType]:
        """The functions whose code is to be swapped; `receiver` is the first argument of the call."""
        key = (id(type(receiver)), patterns.patterns)
        if key not in self._found:
            reached = [found for found in callees(self._function, receiver) if not hasattr(found, "__insitu__")]
            self._warn(reached, patterns)
            self._found[key] = [found for found in reached if any(map(patterns.wanted, known_names(found.__code__)))]
        return self._found[key]

    def _warn(self, reached: list[FunctionType], patterns: Patterns) -> None:
        """Say which patterns name no variable of the function, nor of what it calls."""
        codes = [each.__code__ for each in (self._function, *reached) if isinstance(each, FunctionType)]
        known = {name for code in codes for name in known_names(code)}
        for pattern in patterns.patterns:
            alone = patterns_of((pattern,))
            if pattern not in self._told and codes and not any(map(alone.wanted, known)):
                self._told.add(pattern)
                near = suggestion(pattern.partition(".")[0], known)
                tell(f"neither {self._name} nor what it calls has a variable {pattern!r}{near}")


@contextmanager
def by_lines(codes: list[CodeType], following: Following, frame: FrameType | None = None) -> Iterator[None]:
    """Follow variables line by line: of functions whose source is not there, or in a frame that runs already."""
    follower = LineFollower()
    ident = get_ident()

    def report(point: Point, value: Any) -> None:
        if get_ident() == ident:
            following.report(point, value, frame_of(point, _getframe(1)), own=True)

    follower.start(codes, following.patterns.wanted, report, frame=frame)
    try:
        yield
    finally:
        follower.stop()


@contextmanager
def in_block(frame: FrameType, probes: tuple[Probe, ...], patterns: tuple[str, ...]) -> Iterator[None]:
    """Follow variables of a function that runs already, and of what it calls from here on."""
    code = frame.f_code
    function = FunctionType(code.replace(co_freevars=()), frame.f_globals) if not code.co_freevars else None
    reach = Reach(function, code.co_qualname)
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    with ExitStack() as stack:
        following = stack.enter_context(threads.follow(probes, patterns))
        stack.enter_context(swaps.swapped(reach.functions(first, following.patterns), following.patterns.patterns))
        stack.enter_context(by_lines([], following, frame))
        yield


def frame_of(point: Point, frame: FrameType) -> FrameType:
    """The frame in which a variable was reported, from one that was called by it."""
    here: FrameType | None = frame
    while here is not None:
        if here.f_code.co_qualname == point.function and here.f_code.co_filename == point.file:
            return here
        here = here.f_back
    return frame
