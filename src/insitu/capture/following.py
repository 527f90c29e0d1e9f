"""Which variables are followed where: watched functions run rewritten, and so does what they call.

A watched function runs as a copy with reports in it. The functions it can reach, as far as they have a variable of a
wanted name, get rewritten code for as long as a watched call runs, in whatever thread; in other threads their reports
find nobody. Where there is no source, the lines are followed instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from insitu.capture.inside import Patterns, patterns_of
from insitu.capture.reporters import Following, make_general, make_reporter, make_shortcut, threads
from insitu.capture.swaps import swaps
from insitu.errors import tell
from insitu.follow.callees import callees
from insitu.follow.lines import LineFollower, reported_frame
from insitu.follow.rewrite import Point, known_names, rewrite
from insitu.trace.path import suggestion

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

GENERATORS = 0x20 | 0x80 | 0x200
MOST_SEARCHES = 100  # calls with other objects for which what they reach is remembered


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
        shortcut = make_shortcut(probes[0], patterns, code) if fast else None
        copy = held[key] = with_code(function, rewrite(code, patterns.wanted, reporter, shortcut))
    copy.__defaults__, copy.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return copy


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A copy of a function with other code."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__dict__.update(function.__dict__)
    return copy


class Reach:
    """What a watched function can call, as far as it has variables of the wanted names; found at the first call."""

    def __init__(self, function: Any, name: str) -> None:
        self._function = function
        self._name = name
        self._found: dict[tuple[Any, ...], list[FunctionType]] = {}
        self._told: set[str] = set()

    def functions(self, arguments: dict[str, Any], patterns: Patterns, asked: tuple[str, ...]) -> list[FunctionType]:
        """The functions whose code is to be swapped, for a call with these arguments.

        `asked` are the patterns that are to name a variable here; the others come from watched functions further out.
        """
        receiver = next(iter(arguments.values()), None)
        called = {name: value for name, value in arguments.items() if callable(value)}
        key = (id(type(receiver)), *map(id, called.values()), patterns.patterns)
        if key not in self._found:
            if len(self._found) >= MOST_SEARCHES:
                self._found.clear()
            reached = [
                found for found in callees(self._function, receiver, arguments=called) if not stands_for_another(found)
            ]
            self._warn(reached, asked)
            self._found[key] = [found for found in reached if any(map(patterns.wanted, known_names(found.__code__)))]
        return self._found[key]

    def _warn(self, reached: list[FunctionType], asked: tuple[str, ...]) -> None:
        """Say which patterns name no variable of the function, nor of what it calls."""
        codes = [each.__code__ for each in (self._function, *reached) if isinstance(each, FunctionType)]
        known = {name for code in codes for name in known_names(code)}
        for pattern in asked:
            alone = patterns_of((pattern,))
            if pattern not in self._told and codes and not any(map(alone.wanted, known)):
                self._told.add(pattern)
                near = suggestion(pattern.partition(".")[0], known)
                tell(f"neither {self._name} nor what it calls has a variable {pattern!r}{near}")


def stands_for_another(function: FunctionType) -> bool:
    """Whether a function is the one that stands for a watched one, which is followed in its own way."""
    watched = function.__dict__.get("__insitu__")
    return watched is not None and watched.standing is function


@contextmanager
def by_lines(codes: list[CodeType], following: Following, frame: FrameType | None = None) -> Iterator[None]:
    """Follow variables line by line: of functions whose source is not there, or in a frame that runs already."""
    follower = LineFollower()
    ident = get_ident()

    def report(point: Point, value: Any) -> None:
        frame = reported_frame()
        if get_ident() == ident and frame is not None:
            following.report(point, value, frame, own=True)

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
    with threads.follow(probes, patterns) as following:
        reached = reach.functions(dict(frame.f_locals) if function is not None else {}, following.patterns, ())
        with swaps.swapped(reached, following.patterns.patterns), by_lines([], following, frame):
            yield
