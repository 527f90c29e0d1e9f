"""Trace functions follow variables without `sys.monitoring`; debuggers keep working."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import FrameType
from typing import Any

from insitu.capture.variables.follow.code_variables import CodeVariables

Tracer = Callable[..., Any]
GENERATOR_FLAGS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


class TraceFunctions:
    """A trace function that calls the one that it replaces, here and in the threads that start meanwhile."""

    def __init__(self, watched: dict[int, CodeVariables], frame: FrameType | None) -> None:
        self._here = TraceChain(watched)
        self._in_threads = TraceChain(watched)
        self._joined = None if frame is None else RunningFrame(frame, watched[id(frame.f_code)], self._here)

    def start(self) -> None:
        """Replace the trace functions."""
        self._in_threads.before = threading.gettrace()
        self._here.before = sys.gettrace()
        if self._joined is not None:
            self._joined.start()
        threading.settrace(self._in_threads)
        sys.settrace(self._here)

    def stop(self) -> None:
        """Restore the trace functions, unless others were installed since; other threads do so on their next call."""
        self._here.active = self._in_threads.active = False
        if is_installed(self._here):
            sys.settrace(self._here.below())
        in_threads: object = threading.gettrace()
        if in_threads is self._in_threads:
            threading.settrace(self._in_threads.below())
        if self._joined is not None:
            self._joined.stop()


class TraceChain:
    """The trace function: sees the calls of all functions, and the lines of those that are watched."""

    def __init__(self, watched: dict[int, CodeVariables]) -> None:
        self.active = True
        self.before: Tracer | None = None
        self._watched = watched

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        inner = None
        if self.before is not None or not self.active:
            inner = self.ask(self.before, frame, event, argument)
        watched = self._watched.get(id(frame.f_code)) if self.active else None
        if watched is None or not watched.covers(frame):
            return inner
        return self._begin(watched, frame, inner)

    def ask(self, tracer: Tracer | None, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        """Call another trace function, and install this one again if the other replaced it."""
        installed = is_installed(self)
        found: Tracer | None = None
        if tracer is not None:
            found = tracer(frame, event, argument)
        if installed:
            self._stay_or_go()
        return found

    def below(self) -> Tracer | None:
        """The trace function to restore: the one before, or the one before that if it has stopped meanwhile."""
        before = self.before
        while isinstance(before, TraceChain) and not before.active:
            before = before.before
        return before

    def _stay_or_go(self) -> None:
        """Install this function again, for some trace functions replace it or remove it; after `stop`, restore."""
        if not is_installed(self):
            self.before = sys.gettrace()
        if not self.active:
            sys.settrace(self.below())
        elif not is_installed(self):
            sys.settrace(self)

    def _begin(self, watched: CodeVariables, frame: FrameType, inner: Tracer | None) -> Tracer:
        """The trace function of one frame, which calls that of the debugger for the frame, if there is one."""
        if is_start(frame):
            watched.enter(frame)
        else:
            watched.resume(frame)
        return FrameTracer(watched, self, inner)


class FrameTracer:
    """The trace function of one frame that is watched; `inner` is that of a debugger for it, if there is one."""

    def __init__(
        self, watched: CodeVariables, chained: TraceChain, inner: Tracer | None, *, has_lines: bool = True
    ) -> None:
        self.chained = chained
        self.inner = inner
        self._watched = watched
        # Whether the debugger gets line events.
        self._has_lines = has_lines

    def __call__(self, frame: FrameType, event: str, argument: Any) -> FrameTracer:
        if self.inner is not None and (self._has_lines or event != "line"):
            self.inner = self.chained.ask(self.inner, frame, event, argument) or self.inner
        if not self.chained.active:
            return self
        if event == "line":
            self._watched.step(frame, frame.f_lineno)
        elif event == "return":
            self._watched.leave(frame)
        elif event == "exception":
            self._watched.note_raise(frame)
        return self

    def below(self) -> Tracer | None:
        """The trace function to restore in the frame."""
        inner = self.inner
        while isinstance(inner, FrameTracer) and not inner.chained.active:
            inner = inner.inner
        return inner


class RunningFrame:
    """A frame that runs already: gets a trace function of its own, and at the end what it had before."""

    def __init__(self, frame: FrameType, watched: CodeVariables, chained: TraceChain) -> None:
        self._frame = frame
        self._watched = watched
        self._chained = chained
        self._has_lines = frame.f_trace_lines
        # A debugger that has ended left it: nothing calls it.
        self._idle = frame.f_trace if sys.gettrace() is None else None

    def start(self) -> None:
        """Let the lines of the frame be traced."""
        inner = None if self._idle is not None else self._frame.f_trace
        self._frame.f_trace = FrameTracer(self._watched, self._chained, inner, has_lines=self._has_lines)
        self._frame.f_trace_lines = True

    def stop(self) -> None:
        """Restore the trace function of the frame, unless another one has replaced it."""
        tracer = self._frame.f_trace
        if isinstance(tracer, FrameTracer) and tracer.chained is self._chained:
            self._frame.f_trace = tracer.below() or self._idle
            self._frame.f_trace_lines = self._has_lines


def is_installed(tracer: TraceChain) -> bool:
    """Whether the interpreter calls this trace function itself."""
    current: object = sys.gettrace()
    return current is tracer


def is_start(frame: FrameType) -> bool:
    """Whether a call begins, rather than a generator or coroutine that resumes."""
    code = frame.f_code
    if not code.co_flags & GENERATOR_FLAGS:
        return True
    instruction, argument = code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return dis.opname[instruction] == "RESUME" and argument == 0
