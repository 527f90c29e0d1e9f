"""Calls of watched Python functions: recorded by every session of the thread, or by one of their own.

A function is watched whatever it is: what runs at once is one call; a generator, coroutine or asynchronous generator is
one, too, that is left and entered again at each of its steps.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial, update_wrapper
from threading import get_ident
from time import perf_counter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling

from insitu.capture.calls import PythonCallee
from insitu.capture.explain.note import add_note
from insitu.capture.modules import patch
from insitu.capture.tape import Raised
from insitu.capture.torch_internals import tracing_state
from insitu.capture.variables.follow.definitions import NoSource
from insitu.capture.variables.reach import Codes, Reach, by_lines, followed_themselves, original_of, variant
from insitu.capture.variables.reporters import Audience, audiences, watched_places
from insitu.capture.variables.swaps import swaps
from insitu.tracebacks import without_own_frames

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

Run = Callable[..., Any]
NOTHING = nullcontext()
# What functions that are written in C have besides what is in their dictionary: those of `functools.cache`.
KEPT_ATTRIBUTES = ("cache_info", "cache_clear", "cache_parameters")


@dataclass(frozen=True, slots=True)
class OwnSession:
    """What records a watched function that is called outside of all sessions; `always` also inside of them."""

    start: Callable[[], AbstractContextManager[None]]
    always: bool = False
    is_on: Callable[[], bool] = lambda: False


class FunctionWatch:
    """A function that is watched: how it is noted, which variables are followed, and who records it outside of all
    sessions."""

    def __init__(
        self, function: Callable[..., Any], patterns: tuple[str, ...], alone: OwnSession, *, warns: bool = True
    ) -> None:
        self.warns = warns  # whether to say that a name is that of no variable
        self.function, self.patterns, self.alone = function, patterns, alone
        self.code = code_of(function)
        if self.code is not None:
            watched_places.add((self.code.co_filename, self.code.co_qualname))
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self.callee = PythonCallee(name.rpartition("<locals>.")[2], self.code)
        self._reach = Reach(function, self.callee.name)
        self._codes: Codes = {}
        self.replacement: Run | None = None
        if isinstance(function, FunctionType) and self.code is function.__code__:
            followed_themselves[id(self.code)] = self.code

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, recorded."""
        with self.listening() as probes, self.following(probes, args, kwargs) as run:
            return self.handled(run, probes)(*args, **kwargs)

    def handled(self, run: Run, probes: tuple[Probe, ...]) -> Run:
        """The function as each of the probes runs it."""
        for probe in probes:
            if not probe.paused:
                run = partial(probe.python.on_call, self.callee, run)
        return run

    @contextmanager
    def listening(self) -> Iterator[tuple[Probe, ...]]:
        """The probes that hear this thread: of the sessions that run, or of the one that is its own."""
        probes = self.heard()
        if probes is not None:
            yield probes
            return
        joining = () if get_ident() in patch.probes else patch.joining(None)
        with patch.joined(joining):
            if joining and not self.alone.always:
                yield joining
                return
            with self.alone.start():
                yield probes_here()

    def heard(self) -> tuple[Probe, ...] | None:
        """The probes that hear this thread already; None if one must begin to."""
        if self.alone.always:
            return probes_here() if self.alone.is_on() else None
        return probes_here() or None

    @contextmanager
    def following(self, probes: tuple[Probe, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Run]:
        """The function, or the variant of it that reports the variables that are followed in this thread."""
        if not self.patterns and get_ident() not in audiences:
            yield self.function
            return
        began = perf_counter()
        with audiences.follow(probes, self.patterns) as following:
            reached, run = self._prepared(following, args, kwargs)
            with swaps.swapped(reached, following.patterns.patterns) if reached else NOTHING:
                for probe in probes:
                    probe.spent += perf_counter() - began
                if run is not None:
                    yield run
                    return
                with by_lines([self.function.__code__], following):
                    yield self.function

    def _prepared(self, following: Audience, args: Any, kwargs: Any) -> tuple[list[FunctionType], Run | None]:
        """What reports besides, and the function as it reports itself; None if it must be followed by its lines."""
        reached: list[FunctionType] = []
        try:
            asked = self.patterns if self.warns else ()
            reached = self._reach.functions(self.callee.named(args, kwargs), following.patterns, asked)
            if not isinstance(self.function, FunctionType):
                return reached, self.function
            return reached, variant(self.function, following, self._codes)
        except NoSource:
            return reached, None
        except Exception as error:
            following.told[0][0].trouble("following variables", error)
            return [], self.function


# The probes of functions that are watched outside of all sessions, by thread.
own_probes: dict[int, tuple[Probe, ...]] = {}
os.register_at_fork(after_in_child=own_probes.clear)


def probes_here() -> tuple[Probe, ...]:
    """All probes that record or print what this thread does; a guard only looks at what torch makes."""
    ident = get_ident()
    recording = [probe for probe in patch.probes.get(ident, ()) if probe.check is None]
    return (*recording, *own_probes.get(ident, ()))


def code_of(function: Any) -> CodeType | None:
    """The code that the user wrote, under whatever decorators; None for what is not written in Python."""
    inner = original_of(function)
    return inner.__code__ if inner is not None else None


class ResumableCall:
    """A watched call that is left and entered again: of a generator, or of what is awaited."""

    def __init__(self, watched: FunctionWatch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._watched, self._given = watched, (args, kwargs)
        self._ident = get_ident()
        self._calls: list[tuple[Probe, int]] = []
        self.result: Any = None
        with watched.listening() as probes:
            for probe in probes:
                at = -1 if probe.paused else probe.python.begin(watched.callee, args, kwargs, sys._getframe(1))
                if at >= 0:
                    probe.python.leave(at)
                    probe.suspended += 1
                    self._calls.append((probe, at))
            try:
                with watched.following(probes, args, kwargs) as run:
                    self.inner = run(*args, **kwargs)
            except BaseException as error:  # wrong arguments
                self.__exit__(type(error), error, error.__traceback__)
                raise

    def __enter__(self) -> ResumableCall:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        failed = error is not None and not isinstance(error, GeneratorExit)
        for probe, at in self._calls:
            probe.suspended -= 1
            if failed and error is not None:
                add_note(error, probe, at)
            probe.python.end(at, Raised(error) if failed and error is not None else self.result)
        without_own_frames(traceback)

    def resume(self, step: Run, *arguments: Any) -> Any:
        """Take one step, inside of the call."""
        if get_ident() != self._ident:
            return step(*arguments)
        with self._watched.listening() as probes:
            calls = [(probe, at) for probe, at in self._calls if probe in probes]
            if not calls:  # others listen now, who have not seen it begin
                return step(*arguments)
            with self._watched.following(tuple(probe for probe, _ in calls), *self._given):
                run = step
                for probe, at in calls:
                    run = partial(probe.python.on_step, at, run)
                return run(*arguments)

    def yielded(self, value: Any) -> None:
        """It has yielded a value."""
        frame = getattr(self.inner, "gi_frame", None) or getattr(self.inner, "ag_frame", None)
        for probe, at in self._calls:
            if frame is not None:
                probe.python.yielded(at, frame, value)


def replacement_for(watched: FunctionWatch) -> Run:
    """The function that stands for a watched one: of the same kind, with its name, its signature and its attributes."""
    make = next((make for is_kind, make in KINDS if is_kind(watched.function)), as_function)
    watched.replacement = update_wrapper(make(watched), watched.function)
    if watched.code is not None and watched.code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        watched.replacement = types.coroutine(watched.replacement)
    kept = {name: getattr(watched.function, name) for name in KEPT_ATTRIBUTES if hasattr(watched.function, name)}
    watched.replacement.__dict__.update(kept, __insitu__=watched)
    return watched.replacement


def watch_of(function: Any) -> FunctionWatch | None:
    """What is watched if a function stands for it; other decorators copy attributes, and are others."""
    watched = getattr(function, "__dict__", {}).get("__insitu__")
    return watched if isinstance(watched, FunctionWatch) and watched.replacement is function else None


def as_function(watched: FunctionWatch) -> Run:
    """A function that runs at once."""
    function, heard = watched.function, watched.heard

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or tracing_state() is not None:  # what is compiled stays compiled
            return function(*args, **kwargs)
        try:
            probes = heard()
            if probes is None or watched.patterns or get_ident() in audiences:
                return watched.call(args, kwargs)
            return watched.handled(function, probes)(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = without_own_frames(error.__traceback__)
            raise

    return call


def as_generator(watched: FunctionWatch) -> Run:
    """A generator function."""

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with ResumableCall(watched, args, kwargs) as steps:
            steps.result = yield from driven(steps, steps.inner, steps.yielded)
            return steps.result

    return generator


def as_coroutine(watched: FunctionWatch) -> Run:
    """A coroutine function."""

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with ResumableCall(watched, args, kwargs) as steps:
            steps.result = await AwaitableCall(steps, steps.inner)
            return steps.result

    return coroutine


def as_async_generator(watched: FunctionWatch) -> Run:
    """An asynchronous generator function."""

    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with ResumableCall(watched, args, kwargs) as steps:
            step = steps.inner.asend(None)
            while True:
                try:
                    value = await AwaitableCall(steps, step)
                except StopAsyncIteration:
                    return
                steps.yielded(value)
                try:
                    step = steps.inner.asend((yield value))
                except GeneratorExit:
                    await AwaitableCall(steps, steps.inner.aclose())
                    raise
                except BaseException as error:
                    step = steps.inner.athrow(error)

    return generator


KINDS = (
    (inspect.isasyncgenfunction, as_async_generator),
    (inspect.iscoroutinefunction, as_coroutine),
    (inspect.isgeneratorfunction, as_generator),
)


class AwaitableCall:
    """Something that is awaited, step by step, inside of a recorded call."""

    def __init__(self, steps: ResumableCall, inner: Any) -> None:
        self._steps, self._inner = steps, inner

    def __await__(self) -> Generator[Any, Any, Any]:
        return driven(self._steps, self._inner.__await__(), None)


def driven(steps: ResumableCall, inner: Any, yielded: Callable[[Any], None] | None) -> Generator[Any, Any, Any]:
    """Resume a generator, or the iterator of an awaitable, each time inside of the recorded call."""
    step, argument = inner.send, None
    held: list[Any] = []  # emptied as the value goes out: it is the consumer's then
    while True:
        try:
            held.append(steps.resume(step, argument))
        except StopIteration as stop:
            return stop.value
        if yielded is not None:
            yielded(held[0])
        argument = None
        try:
            step, argument = inner.send, (yield held.pop())
        except GeneratorExit:
            steps.resume(inner.close)
            raise
        except BaseException as error:
            step, argument = inner.throw, error
