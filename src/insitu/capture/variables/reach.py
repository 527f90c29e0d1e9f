"""Which variables are followed where: watched functions run rewritten, and so does what they call.

A watched function runs as a copy with reports in it. The functions it can reach, as far as they have a variable of a
wanted name, get rewritten code for as long as a watched call runs, in whatever thread; in other threads their reports
find nobody. Where there is no source, the lines are followed instead.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from insitu.capture.variables.follow.callees import callees
from insitu.capture.variables.follow.definitions import NoSource
from insitu.capture.variables.follow.lines import LineFollower, reported_frame
from insitu.capture.variables.follow.lookup import attributes_of
from insitu.capture.variables.follow.rewrite import Point, known_names
from insitu.capture.variables.patterns import VariablePatterns, patterns_of
from insitu.capture.variables.reporters import (
    Audience,
    audiences,
    make_general,
    make_reporter,
    make_shortcut,
    reporting,
)
from insitu.capture.variables.swaps import swaps
from insitu.errors import tell
from insitu.trace.path import suggestion

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
MOST_SEARCHES = 100  # calls with other objects for which what they reach is remembered


# Rewritten code, or why there is none, by the original, which is held so that its id stays its own, and the patterns.
Codes = dict[tuple[int, tuple[str, ...]], tuple[CodeType, CodeType | NoSource]]


def variant(function: FunctionType, following: Audience, codes: Codes) -> FunctionType:
    """A copy of a function that reports the variables; `codes` are those that can be used for any probe."""
    (probe, _), patterns, code = following.told[0], following.patterns, function.__code__
    is_fast = len(following.told) == 1 and probe.live is None and not code.co_flags & GENERATORS
    held = probe.variants if is_fast else codes
    key = (id(code), patterns.patterns)
    if key not in held:
        reporter = make_reporter(probe, patterns, code) if is_fast else make_general()
        shortcut = make_shortcut(probe, patterns, code) if is_fast else None
        try:
            held[key] = (code, reporting(code, patterns, reporter, shortcut))
        except NoSource as reason:
            held[key] = (code, reason)
    found = held[key][1]
    if isinstance(found, NoSource):
        raise found.with_traceback(None)
    return with_code(function, found)


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A copy of a function with other code."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    return copy


class Reach:
    """What a watched function can call, as far as it has variables of the wanted names; found at the first call."""

    def __init__(self, function: Any, name: str) -> None:
        self._function = function
        self._name = name
        self._found: dict[tuple[Any, ...], list[weakref.ref[FunctionType]]] = {}
        self._told: set[str] = set()

    def functions(
        self, arguments: dict[str, Any], patterns: VariablePatterns, asked: tuple[str, ...]
    ) -> list[FunctionType]:
        """The functions whose code is to be swapped, for a call with these arguments.

        `asked` are the patterns that are to name a variable here; the others come from watched functions further out.
        """
        receiver = next(iter(arguments.values()), None)
        called = {name: value for name, value in arguments.items() if callable(value)}
        key = (id(type(receiver)), *callables_in(receiver), *map(id, called.values()), patterns.patterns)
        known = [function() for function in self._found.get(key, ())]
        if key in self._found and None not in known:
            return [function for function in known if function is not None]
        found = self._search(receiver, called, patterns, asked)
        if len(self._found) >= MOST_SEARCHES:
            self._found.clear()
        self._found[key] = [weakref.ref(function) for function in found]
        return found

    def _search(
        self, receiver: Any, called: dict[str, Any], patterns: VariablePatterns, asked: tuple[str, ...]
    ) -> list[FunctionType]:
        reached = [found for found in self._callees(receiver, called) if not is_followed_itself(found)]
        self._warn(reached, asked)
        return [found for found in reached if any(map(patterns.wanted, known_names(found.__code__)))]

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
    call = getattr(inner, "__func__", None) or inspect.getattr_static(type(inner), "__call__", None)
    return call if isinstance(call, FunctionType) else None


def callables_in(receiver: Any) -> list[int]:
    """The ids of what an object could call of its own: what it reaches depends on them, and on its class."""
    if issubclass(type(receiver), nn.Module):
        return [id(receiver)]
    return [id(value) for value in attributes_of(receiver).values() if callable(value)]


# The code of watched functions, by id, held so that the ids stay theirs: they follow their variables themselves.
followed_themselves: dict[int, CodeType] = {}


def is_followed_itself(function: FunctionType) -> bool:
    """Whether a function is a watched one, or stands for it: at its call, its own copy runs."""
    watched = function.__dict__.get("__insitu__")
    return id(function.__code__) in followed_themselves or (watched is not None and watched.replacement is function)


@contextmanager
def by_lines(codes: list[CodeType], following: Audience, frame: FrameType | None = None) -> Iterator[None]:
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
    with audiences.follow(probes, patterns) as following:
        reached = reach.functions(dict(frame.f_locals) if function is not None else {}, following.patterns, patterns)
        with swaps.swapped(reached, following.patterns.patterns), by_lines([], following, frame):
            yield
