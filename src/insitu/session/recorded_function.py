"""`record_run` as a decorator: all calls of a function are one run, which ends with the program."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Generator
from types import FrameType, FunctionType
from typing import Any, TypeVar

from insitu.capture.values.loop_targets import LoopScope
from insitu.capture.variables.follow.code_variables import parameter_names
from insitu.capture.variables.reach import original_of
from insitu.errors import ChoiceError, SubjectError, brief
from insitu.session.run_block import RunBlock
from insitu.session.run_entry import RunEntry
from insitu.session.run_options import RunOptions
from insitu.session.session import Entry, Session
from insitu.session.switch import is_off
from insitu.tracebacks import without_own_frames

Function = TypeVar("Function", bound=Callable[..., Any])


def recorded_function(function: Function, options: RunOptions) -> Function:
    """A function of the same kind whose variables are recorded whenever it runs."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(recorded_function(function.__func__, options))
    inner = original_of(function) if callable(function) else None
    if inner is None or isinstance(function, type):
        raise SubjectError(f"insitu.record_run cannot decorate {brief(function)}: it decorates functions")
    if inspect.isasyncgenfunction(inner):
        raise SubjectError(
            f"insitu.record_run cannot decorate {brief(function)}, an asynchronous generator: "
            f"write `with insitu.record_run(...):` around the loop in it"
        )
    if options.to is None and options.function is None:
        raise ChoiceError("a decorated function needs a file to record to: record_run(only=..., to='run.h5')")
    if is_off():
        return function
    options.check_names(LoopScope.of_function(inner))
    run = FunctionRun(options, inner)
    decorated = functools.update_wrapper(make_caller(function, run), function)
    weakref.finalize(decorated, run.end)
    return decorated  # type: ignore[return-value]


def make_caller(function: Callable[..., Any], run: FunctionRun) -> Callable[..., Any]:
    """A function that runs another one while it is recorded; a traceback shows only the other one."""
    if inspect.isgeneratorfunction(function):

        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            try:
                with RecordedCall(run, args, kwargs):
                    return (yield from function(*args, **kwargs))
            except BaseException as error:
                error.__traceback__ = without_own_frames(error.__traceback__)
                raise

        return generator
    if inspect.iscoroutinefunction(function):

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            try:
                with RecordedCall(run, args, kwargs):
                    return await function(*args, **kwargs)
            except BaseException as error:
                error.__traceback__ = without_own_frames(error.__traceback__)
                raise

        return coroutine

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            with RecordedCall(run, args, kwargs):
                return function(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = without_own_frames(error.__traceback__)
            raise

    return call


class FunctionRun:
    """The run of a decorated function: it begins with the first call, pauses between calls, and is one for all threads.

    It ends with the program, or when the function is gone, as when the cell of a notebook defines it anew.
    """

    def __init__(self, options: RunOptions, function: FunctionType) -> None:
        self._options, self._function = options, function
        self._lock = threading.RLock()
        self._calls = 0  # that run now
        self._entry: RunEntry | None = None

    def begin_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call of the function begins."""
        with self._lock:
            if self._entry is None:
                names = parameter_names(self._function.__code__)
                arguments = {**dict(zip(names, args, strict=False)), **kwargs}
                plan = self._options.plan(RunBlock(None, self._function, arguments))
                self._entry = RunEntry(self._options, plan)
            elif self._calls == 0:
                self._entry.resume()
            self._calls += 1

    def end_call(self, error: BaseException | None) -> None:
        """A call of the function has ended."""
        with self._lock:
            self._calls -= 1
            if self._calls == 0 and self._entry is not None:
                self._entry.pause(error)

    def end(self) -> None:
        """End the run and make its file."""
        if self._entry is not None:
            self._entry.end()


class CallEntry(Entry):
    """One call of a decorated function."""

    def __init__(self, run: FunctionRun) -> None:
        super().__init__()
        self._run: FunctionRun | None = run

    def stop(self, error: BaseException | None) -> None:
        """End the call; the second time, do nothing."""
        run, self._run = self._run, None
        if run is not None:
            run.end_call(error)


class RecordedCall(Session[CallEntry]):
    """A `with` block around one call of a decorated function."""

    def __init__(self, run: FunctionRun, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self._run, self._arguments = run, (args, kwargs)

    def __enter__(self) -> None:
        self.enter(sys._getframe(1))

    def open(self, frame: FrameType | None) -> CallEntry:
        """Begin to record the call."""
        (args, kwargs), self._arguments = self._arguments, ((), {})
        self._run.begin_call(args, kwargs)
        return CallEntry(self._run)
