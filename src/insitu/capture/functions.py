"""Calls of watched Python functions: recorded by every session of the thread, or by one of their own.

A function is watched whatever it is: what runs at once is one call; a generator, coroutine or asynchronous generator is
one, too, that is left and entered again at each of its steps.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import get_ident
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling

from insitu.capture.calls import PythonNote
from insitu.capture.following import Reach, by_lines, variant
from insitu.capture.modules import patch
from insitu.capture.reporters import threads
from insitu.capture.swaps import swaps
from insitu.capture.tape import Raised
from insitu.follow.definitions import NoSource
from insitu.tracebacks import without_own_frames

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

Run = Callable[..., Any]
NOTHING = nullcontext()
# What records a watched function that is called outside of all sessions.
Alone = Callable[[], AbstractContextManager[tuple["Probe", ...]]]


class Watched:
    """A function that is watched: how it is noted, which variables are followed, and who records it outside of all
    sessions."""

    def __init__(self, function: Callable[..., Any], patterns: tuple[str, ...], alone: Alone) -> None:
        self.function, self.patterns, self.alone = function, patterns, alone
        self.code = code_of(function)
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self.note = PythonNote(name.rpartition("<locals>.")[2], self.code)
        self._reach = Reach(function, self.note.name)
        self._variants: dict[Any, FunctionType] = {}

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, recorded."""
        ident = get_ident()
        probes = patch.probes.get(ident) or alone.get(ident)
        if probes is None:
            with self.listening() as probes:
                return self._recorded(probes, args, kwargs)
        return self._recorded(probes, args, kwargs)

    def _recorded(self, probes: tuple[Probe, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.patterns and get_ident() not in threads:
            return self._handled(self.function, probes)(*args, **kwargs)
        with self.following(probes, args) as run:
            return self._handled(run, probes)(*args, **kwargs)

    def _handled(self, run: Run, probes: tuple[Probe, ...]) -> Run:
        for probe in probes:
            if not probe.paused:
                run = partial(probe.python.on_call, self.note, run)
        return run

    @contextmanager
    def listening(self) -> Iterator[tuple[Probe, ...]]:
        """The probes that hear this thread: of the sessions that run, or of the one that is its own."""
        probes = patch.probes.get(get_ident()) or alone.get(get_ident())
        if probes is not None:
            yield probes
            return
        probes = patch.joining(None)
        if probes:
            with patch.joined(probes):
                yield probes
            return
        with self.alone() as probes:
            yield probes

    @contextmanager
    def following(self, probes: tuple[Probe, ...], args: tuple[Any, ...]) -> Iterator[Run]:
        """The function, or the variant of it that reports the variables that are followed in this thread."""
        function = self.function
        if not self.patterns and get_ident() not in threads:
            yield function
            return
        with threads.follow(probes, self.patterns) as following:
            reached = self._reach.functions(args[0] if args else None, following.patterns)
            with swaps.swapped(reached, following.patterns.patterns) if reached else NOTHING:
                if not isinstance(function, FunctionType):
                    yield function
                    return
                try:
                    reporting = variant(function, following, self._variants)
                except NoSource:
                    with by_lines([function.__code__], following):
                        yield function
                else:
                    yield reporting


# The probes of functions that are watched outside of all sessions, by thread.
alone: dict[int, tuple[Probe, ...]] = {}


def code_of(function: Any) -> CodeType | None:
    """The code that the user wrote, under whatever decorators; None for what is not written in Python."""
    try:
        inner = inspect.unwrap(function)
    except ValueError:  # it wraps itself
        return None
    found = getattr(inner, "__code__", None)
    return found if isinstance(found, CodeType) else None


class Steps:
    """A watched call that is left and entered again: of a generator, or of what is awaited."""

    def __init__(self, watched: Watched, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._watched, self._args = watched, args
        self._ident = get_ident()
        self._calls: list[tuple[Probe, int]] = []
        self.result: Any = None
        with watched.listening() as probes:
            for probe in probes:
                at = -1 if probe.paused else probe.python.begin(watched.note, args, kwargs, sys._getframe(1))
                if at >= 0:
                    probe.python.leave(at)
                    probe.suspended += 1
                    self._calls.append((probe, at))
            with watched.following(probes, args) as run:
                self.inner = run(*args, **kwargs)

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        failed = error is not None and not isinstance(error, GeneratorExit)
        for probe, at in self._calls:
            probe.suspended -= 1
            probe.python.end(at, Raised(error) if failed and error is not None else self.result)
        without_own_frames(traceback)

    def resume(self, step: Run, *arguments: Any) -> Any:
        """Take one step, inside of the call."""
        if get_ident() != self._ident:
            return step(*arguments)
        with self._watched.listening() as probes, self._watched.following(probes, self._args):
            run = step
            for probe, at in self._calls:
                if probe in probes:
                    run = partial(probe.python.on_step, at, run)
            return run(*arguments)

    def yielded(self, value: Any) -> None:
        """It has yielded a value."""
        frame = getattr(self.inner, "gi_frame", None) or getattr(self.inner, "ag_frame", None)
        for probe, at in self._calls:
            if frame is not None:
                probe.python.yielded(at, frame, value)


def standing_for(watched: Watched) -> Run:
    """The function that stands for a watched one, and is of the same kind."""
    for is_kind, make in KINDS:
        if is_kind(watched.function):
            return make(watched)
    return as_function(watched)


def as_function(watched: Watched) -> Run:
    """A function that runs at once."""
    function, record = watched.function, watched.call

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # what is compiled stays compiled
            return function(*args, **kwargs)
        try:
            return record(args, kwargs)
        except BaseException as error:
            error.__traceback__ = without_own_frames(error.__traceback__)
            raise

    return call


def as_generator(watched: Watched) -> Run:
    """A generator function."""

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with Steps(watched, args, kwargs) as steps:
            steps.result = yield from driven(steps, steps.inner, steps.yielded)
            return steps.result

    return generator


def as_coroutine(watched: Watched) -> Run:
    """A coroutine function."""

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with Steps(watched, args, kwargs) as steps:
            steps.result = await Awaited(steps, steps.inner)
            return steps.result

    return coroutine


def as_async_generator(watched: Watched) -> Run:
    """An asynchronous generator function."""

    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with Steps(watched, args, kwargs) as steps:
            step = steps.inner.asend(None)
            while True:
                try:
                    value = await Awaited(steps, step)
                except StopAsyncIteration:
                    return
                steps.yielded(value)
                try:
                    step = steps.inner.asend((yield value))
                except GeneratorExit:
                    await Awaited(steps, steps.inner.aclose())
                    raise
                except BaseException as error:
                    step = steps.inner.athrow(error)

    return generator


KINDS = (
    (inspect.isasyncgenfunction, as_async_generator),
    (inspect.iscoroutinefunction, as_coroutine),
    (inspect.isgeneratorfunction, as_generator),
)


class Awaited:
    """Something that is awaited, step by step, inside of a recorded call."""

    def __init__(self, steps: Steps, inner: Any) -> None:
        self._steps, self._inner = steps, inner

    def __await__(self) -> Generator[Any, Any, Any]:
        return driven(self._steps, self._inner.__await__(), None)


def driven(steps: Steps, inner: Any, yielded: Callable[[Any], None] | None) -> Generator[Any, Any, Any]:
    """Resume a generator, or the iterator of an awaitable, each time inside of the recorded call."""
    step, argument = inner.send, None
    while True:
        try:
            value = steps.resume(step, argument)
        except StopIteration as stop:
            return stop.value
        if yielded is not None:
            yielded(value)
        try:
            step, argument = inner.send, (yield value)
        except GeneratorExit:
            steps.resume(inner.close)
            raise
        except BaseException as error:
            step, argument = inner.throw, error
