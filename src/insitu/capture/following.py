"""Which variables are followed where: watched functions run rewritten, and so does what they call.

A watched function runs as a copy with reports in it. The functions it can reach, as far as they have a variable of a
wanted name, get rewritten code for as long as a watched call runs, in whatever thread; in other threads their reports
find nobody. Where there is no source, the lines are followed instead.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    (probe, _), patterns = following.told[0], following.patterns
    fast = len(following.told) == 1 and probe.live is None and not function.__code__.co_flags & GENERATORS
    held = probe.variants if fast else kept
    key = (id(function.__code__), patterns.patterns)
    copy = held.get(key)
    if copy is None:
        code = function.__code__
        reporter = make_reporter(probe, patterns, code) if fast else make_general()
        shortcut = make_shortcut(probe, patterns, code) if fast else None
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
        self._found: dict[tuple[Any, ...], tuple[Sequence[Callable[[], Any]], list[FunctionType]]] = {}
        self._told: set[str] = set()

    def functions(self, arguments: dict[str, Any], patterns: Patterns, asked: tuple[str, ...]) -> list[FunctionType]:
        """The functions whose code is to be swapped, for a call with these arguments.

        `asked` are the patterns that are to name a variable here; the others come from watched functions further out.
        """
        receiver = next(iter(arguments.values()), None)
        called = {name: value for name, value in arguments.items() if callable(value)}
        key = (id(type(receiver)), *map(id, called.values()), patterns.patterns)
        references, functions = self._found.get(key, ((), []))
        if not references or any(reference() is None for reference in references):  # an id may be another's by now
            if len(self._found) >= MOST_SEARCHES:
                self._found.clear()
            reached = [found for found in self._callees(receiver, called) if not stands_for_another(found)]
            self._warn(reached, asked)
            functions = [found for found in reached if any(map(patterns.wanted, known_names(found.__code__)))]
            self._found[key] = (alive((type(receiver), *called.values())), functions)
        return functions

    def _callees(self, receiver: Any, called: dict[str, Any]) -> list[FunctionType]:
        """What can be reached; of what is no Python function itself, the one that it wraps is the first."""
        if isinstance(self._function, FunctionType):
            return callees(self._function, receiver, arguments=called)
        inner = original_of(self._function)
        return [] if inner is None else [inner, *callees(inner, receiver, arguments=called)]

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


def original_of(function: Any) -> FunctionType | None:
    """The function that the user wrote, under whatever decorators; None for what is not written in Python."""
    try:
        inner = inspect.unwrap(function)
    except ValueError:  # it wraps itself
        return None
    if isinstance(inner, FunctionType):
        return inner
    call = getattr(inner, "__func__", None) or getattr(type(inner), "__call__", None)
    return call if isinstance(call, FunctionType) else None


def alive(items: Iterable[Any]) -> list[Callable[[], Any]]:
    """References to objects that do not keep them alive, where that is possible."""
    found: list[Callable[[], Any]] = []
    for item in items:
        try:
            found.append(weakref.ref(item))
        except TypeError:
            found.append(lambda item=item: item)  # type: ignore[misc]
    return found


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
        reached = reach.functions(dict(frame.f_locals) if function is not None else {}, following.patterns, patterns)
        with swaps.swapped(reached, following.patterns.patterns), by_lines([], following, frame):
            yield
