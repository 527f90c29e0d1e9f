"""Watched functions that report their variables: as rewritten copies, or, without source, line by line.

A watched function runs as a copy with reports in it. The functions that it can reach (reach.py) get rewritten code
while a watched call runs in any thread (swaps.py); in threads that follow nothing, their reports have no audience.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from insitu.capture.variables.follow.definitions import NoSource
from insitu.capture.variables.follow.lines import LineFollower, reported_frame
from insitu.capture.variables.follow.rewrite import ReportPoint
from insitu.capture.variables.reach import Reach
from insitu.capture.variables.reporters import (
    Audience,
    audiences,
    make_reporter,
    make_shortcut,
    make_thread_reporter,
    rewritten,
)
from insitu.capture.variables.swaps import swaps

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

# Rewritten code, or why there is none, by the id of the original, which is held so that the id stays its own, and the
# patterns.
Codes = dict[tuple[int, tuple[str, ...]], tuple[CodeType, CodeType | NoSource]]


def variant(function: FunctionType, audience: Audience, codes: Codes) -> FunctionType:
    """A copy of a function that reports the variables; `codes` holds the code that any probe can use.

    Code that runs for one probe only knows that probe, which is faster; a generator may go on for another one.
    """
    probe, code = audience.listeners[0][0], function.__code__
    is_fast = len(audience.listeners) == 1 and probe.live is None and not code.co_flags & GENERATORS
    held = probe.variants if is_fast else codes
    key = (id(code), audience.patterns.patterns)
    if key not in held:
        held[key] = (code, variant_code(code, audience, probe if is_fast else None))
    found = held[key][1]
    if isinstance(found, NoSource):
        raise found.with_traceback(None)
    return with_code(function, found)


def variant_code(code: CodeType, audience: Audience, probe: Probe | None) -> CodeType | NoSource:
    """The rewritten code, for one probe or, with None, for all; or why the code cannot be rewritten."""
    patterns = audience.patterns
    try:
        if probe is None:
            return rewritten(code, patterns, make_thread_reporter())
        return rewritten(code, patterns, make_reporter(probe, patterns, code), make_shortcut(probe, patterns, code))
    except NoSource as reason:
        return reason


def with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A copy of a function with other code."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    return copy


@contextmanager
def by_lines(codes: list[CodeType], audience: Audience, frame: FrameType | None = None) -> Iterator[None]:
    """Follow variables line by line: of functions without source, or in a frame that runs already."""
    follower = LineFollower()
    ident = get_ident()

    def report(point: ReportPoint, value: Any) -> None:
        frame = reported_frame()
        if get_ident() == ident and frame is not None:
            audience.report(point, value, frame, own=True)

    follower.start(codes, audience.patterns.wanted, report, frame=frame)
    try:
        yield
    finally:
        follower.stop()


@contextmanager
def in_block(frame: FrameType, probes: tuple[Probe, ...], patterns: tuple[str, ...]) -> Iterator[None]:
    """Follow variables of a function that runs already, and of the functions that it calls from here on."""
    code, arguments = frame.f_code, {}
    function = None
    if not code.co_freevars:
        function, arguments = FunctionType(code, frame.f_globals), dict(frame.f_locals)
    reach = Reach(function, code.co_qualname)
    with audiences.follow(probes, patterns) as audience:
        reached = reach.functions(arguments, audience.patterns, patterns)
        with swaps.swapped(reached, audience.patterns.patterns), by_lines([], audience, frame):
            yield
