"""Calls of watched Python functions: recorded by every session of the thread, or by a session of their own.

A call of a function runs at once. A call of a generator, coroutine or asynchronous generator is left and entered again
at each of its steps, and is still one call.
"""

from __future__ import annotations

import inspect
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
from insitu.capture.variables.reach import Reach, original_of, watched_codes
from insitu.capture.variables.reporters import Audience, audiences, watched_places
from insitu.capture.variables.swaps import swaps
from insitu.capture.variables.variants import Codes, by_lines, variant
from insitu.operating_system import at_fork
from insitu.tracebacks import without_own_frames

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

Run = Callable[..., Any]
NOTHING = nullcontext()
# Attributes of functions written in C that are not in their dictionary: those of `functools.cache`.
KEPT_ATTRIBUTES = ("cache_info", "cache_clear", "cache_parameters")


@dataclass(frozen=True, slots=True)
class OwnSession:
    """The session of a watched function that is called outside of all sessions; with `always`, even inside of them."""

    start: Callable[[], AbstractContextManager[None]]
    always: bool = False
    is_on: Callable[[], bool] = lambda: False


class FunctionWatch:
    """A watched function: its callee, the variables that are followed, and its session outside of all sessions."""

    def __init__(
        self, function: Callable[..., Any], patterns: tuple[str, ...], own_session: OwnSession, *, warns: bool = True
    ) -> None:
        self.warns = warns  # whether to warn of a name that no variable has
        self.function, self.patterns, self.own_session = function, patterns, own_session
        self.code = code_of(function)
        if self.code is not None:
            watched_places.add((self.code.co_filename, self.code.co_qualname))
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        self.callee = PythonCallee(name.rpartition("<locals>.")[2], self.code)
        self._reach = Reach(function, self.callee.name)
        self._codes: Codes = {}
        self.replacement: Run | None = None
        if isinstance(function, FunctionType) and self.code is function.__code__:
            watched_codes[id(self.code)] = self.code

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function and record the call."""
        with self.active_probes() as probes, self.reporting_function(probes, args, kwargs) as run:
            return self.wrap(run, probes)(*args, **kwargs)

    def wrap(self, run: Run, probes: tuple[Probe, ...]) -> Run:
        """The function with the handlers of the probes around it."""
        for probe in probes:
            if not probe.paused:
                run = partial(probe.python.on_call, self.callee, run)
        return run

    @contextmanager
    def active_probes(self) -> Iterator[tuple[Probe, ...]]:
        """The probes that record this thread: of the sessions that run, or of the function's own session."""
        probes = self.current_probes()
        if probes is not None:
            yield probes
            return
        joining = () if get_ident() in patch.probes else patch.joining(None)
        with patch.joined(joining):
            if joining and not self.own_session.always:
                yield joining
                return
            with self.own_session.start():
                yield probes_here()

    def current_probes(self) -> tuple[Probe, ...] | None:
        """The probes that record this thread already; None if a session must start."""
        if self.own_session.always:
            if self.own_session.is_on():
                return probes_here()
            return None
        return probes_here() or None

    @contextmanager
    def reporting_function(
        self, probes: tuple[Probe, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[Run]:
        """The function, or its variant that reports the variables that this thread follows."""
        if not self.patterns and get_ident() not in audiences:
            yield self.function
            return
        began = perf_counter()
        with audiences.follow(probes, self.patterns) as audience:
            reached, run = self._functions(audience, args, kwargs)
            with swaps.swapped(reached, audience.patterns.patterns) if reached else NOTHING:
                for probe in probes:
                    probe.spent += perf_counter() - began
                if run is not None:
                    yield run
                    return
                with by_lines([self.function.__code__], audience):
                    yield self.function

    def _functions(self, audience: Audience, args: Any, kwargs: Any) -> tuple[list[FunctionType], Run | None]:
        """The other functions that report, and the variant of this one; None if its lines must be followed."""
        reached: list[FunctionType] = []
        try:
            required = self.patterns if self.warns else ()
            reached = self._reach.functions(self.callee.by_name(args, kwargs), audience.patterns, required)
            if not isinstance(self.function, FunctionType):
                return reached, self.function
            return reached, variant(self.function, audience, self._codes)
        except NoSource:
            return reached, None
        except Exception as error:
            audience.listeners[0][0].trouble("following variables", error)
            return [], self.function


# The probes of functions that are watched outside of all sessions, by thread.
own_probes: dict[int, tuple[Probe, ...]] = {}
at_fork(after_in_child=own_probes.clear)


def probes_here() -> tuple[Probe, ...]:
    """All probes that record or print the calls of this thread; the probe of a guard only checks tensors."""
    ident = get_ident()
    recording = [probe for probe in patch.probes.get(ident, ()) if probe.check is None]
    return (*recording, *own_probes.get(ident, ()))


def code_of(function: Any) -> CodeType | None:
    """The code that the user wrote, without decorators; None for a function that is not written in Python."""
    inner = original_of(function)
    if inner is not None:
        return inner.__code__
    return None


class ResumableCall:
    """A watched call that is left and entered again: of a generator or a coroutine."""

    def __init__(self, watch: FunctionWatch, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._watch, self._arguments = watch, (args, kwargs)
        self._ident = get_ident()
        self._calls: list[tuple[Probe, int]] = []
        self.result: Any = None
        with watch.active_probes() as probes:
            for probe in probes:
                at = -1 if probe.paused else probe.python.begin(watch.callee, args, kwargs, sys._getframe(1))
                if at >= 0:
                    probe.python.leave(at)
                    probe.suspended += 1
                    self._calls.append((probe, at))
            try:
                with watch.reporting_function(probes, args, kwargs) as run:
                    self.inner = run(*args, **kwargs)
            except BaseException as error:  # wrong arguments
                self.__exit__(type(error), error, error.__traceback__)
                raise

    def __enter__(self) -> ResumableCall:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        raised = None if isinstance(error, GeneratorExit) else error
        for probe, at in self._calls:
            probe.suspended -= 1
            if raised is not None:
                add_note(raised, probe, at)
            probe.python.end(at, self.result if raised is None else Raised(raised))
        without_own_frames(traceback)

    def resume(self, step: Run, *arguments: Any) -> Any:
        """Run one step inside of the call."""
        if get_ident() != self._ident:
            return step(*arguments)
        with self._watch.active_probes() as probes:
            calls = [(probe, at) for probe, at in self._calls if probe in probes]
            if not calls:  # the probes of now have not seen the call begin
                return step(*arguments)
            with self._watch.reporting_function(tuple(probe for probe, _ in calls), *self._arguments):
                run = step
                for probe, at in calls:
                    run = partial(probe.python.on_step, at, run)
                return run(*arguments)

    def record_yield(self, value: Any) -> None:
        """Record a value that the generator has yielded."""
        frame = getattr(self.inner, "gi_frame", None) or getattr(self.inner, "ag_frame", None)
        if frame is None:
            return
        for probe, at in self._calls:
            probe.python.yielded(at, frame, value)


def replacement_for(watch: FunctionWatch) -> Run:
    """The replacement of a watched function: of the same kind, with its name, its signature and its attributes."""
    make = next((make for is_kind, make in KINDS if is_kind(watch.function)), as_function)
    watch.replacement = update_wrapper(make(watch), watch.function)
    if watch.code is not None and watch.code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        watch.replacement = types.coroutine(watch.replacement)
    kept = {name: getattr(watch.function, name) for name in KEPT_ATTRIBUTES if hasattr(watch.function, name)}
    watch.replacement.__dict__.update(kept, __insitu__=watch)
    return watch.replacement


def watch_of(function: Any) -> FunctionWatch | None:
    """The watch that a function is the replacement of; a decorator around it copies the attribute, and is not."""
    watch = getattr(function, "__dict__", {}).get("__insitu__")
    if isinstance(watch, FunctionWatch) and watch.replacement is function:
        return watch
    return None


def as_function(watch: FunctionWatch) -> Run:
    """A function that runs at once."""
    function, current_probes = watch.function, watch.current_probes

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or tracing_state() is not None:  # compiled code stays compiled
            return function(*args, **kwargs)
        try:
            probes = current_probes()
            if probes is None or watch.patterns or get_ident() in audiences:
                return watch.call(args, kwargs)
            return watch.wrap(function, probes)(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = without_own_frames(error.__traceback__)
            raise

    return call


def as_generator(watch: FunctionWatch) -> Run:
    """A generator function."""

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with ResumableCall(watch, args, kwargs) as call:
            call.result = yield from drive(call, call.inner, call.record_yield)
            return call.result

    return generator


def as_coroutine(watch: FunctionWatch) -> Run:
    """A coroutine function."""

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with ResumableCall(watch, args, kwargs) as call:
            call.result = await AwaitableCall(call, call.inner)
            return call.result

    return coroutine


def as_async_generator(watch: FunctionWatch) -> Run:
    """An asynchronous generator function."""

    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with ResumableCall(watch, args, kwargs) as call:
            step = call.inner.asend(None)
            while True:
                try:
                    value = await AwaitableCall(call, step)
                except StopAsyncIteration:
                    return
                call.record_yield(value)
                try:
                    step = call.inner.asend((yield value))
                except GeneratorExit:
                    await AwaitableCall(call, call.inner.aclose())
                    raise
                except BaseException as error:
                    step = call.inner.athrow(error)

    return generator


KINDS = (
    (inspect.isasyncgenfunction, as_async_generator),
    (inspect.iscoroutinefunction, as_coroutine),
    (inspect.isgeneratorfunction, as_generator),
)


class AwaitableCall:
    """An awaitable whose steps run inside of a recorded call."""

    def __init__(self, call: ResumableCall, inner: Any) -> None:
        self._call, self._inner = call, inner

    def __await__(self) -> Generator[Any, Any, Any]:
        return drive(self._call, self._inner.__await__(), None)


def drive(call: ResumableCall, inner: Any, yielded: Callable[[Any], None] | None) -> Generator[Any, Any, Any]:
    """Resume a generator, or the iterator of an awaitable, each time inside of the recorded call."""
    step, argument = inner.send, None
    held: list[Any] = []  # emptied when the value is yielded: nothing here keeps it alive
    while True:
        try:
            held.append(call.resume(step, argument))
        except StopIteration as stop:
            return stop.value
        if yielded is not None:
            yielded(held[0])
        argument = None
        try:
            step, argument = inner.send, (yield held.pop())
        except GeneratorExit:
            call.resume(inner.close)
            raise
        except BaseException as error:
            step, argument = inner.throw, error
