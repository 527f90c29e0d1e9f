"""Variables followed line by line, without the source: for functions that cannot be rewritten.

Before a line runs, the variables are compared with what they were before the last line that ran in the same frame:
that line made the change. `sys.monitoring` watches just the functions asked for; where it is missing (Python 3.11, or
no tool id is free) a trace function does, and calls the one that was there before it.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from insitu.capture.definitions import nested_codes
from insitu.capture.rewrite import COMPREHENSIONS, Point
from insitu.capture.statements import Moment

Report = Callable[[Point, Any], object]
Tracer = Callable[..., Any]
# Values of these types are what they are: equal ones are the same, and none can change.
ATOMS = frozenset({int, float, complex, bool, str, bytes, object, type(None), type(...)})
GLOBAL_INSTRUCTIONS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
# 0 to 2 are for debuggers, coverage and profilers; 5 for optimizers.
TOOL_IDS = (3, 4, 5)
GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
MISSING = object()


class Watched:
    """A code object: which of its names are followed, and the values they had in each frame that is running."""

    def __init__(self, code: CodeType, wanted: Callable[[str], bool], report: Report) -> None:
        self.code = code
        self._report = report
        self._points: dict[tuple[Moment, str, int], Point] = {}
        flags = (code.co_flags & 0x04, code.co_flags & 0x08)
        count = code.co_argcount + code.co_kwonlyargcount + sum(map(bool, flags))
        self._parameters = [name for name in code.co_varnames[:count] if wanted(name)]
        variables = dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
        self._locals = [name for name in variables if wanted(name)]
        self._globals = [name for name in global_names(code) if wanted(name)]
        # The last line and the values in each frame, by the id of the frame, which is that of no other one until the
        # frame has returned, yielded or raised.
        self._frames: dict[int, list[Any]] = {}

    @property
    def has_names(self) -> bool:
        """Whether there is anything to follow."""
        return bool(self._locals or self._globals)

    def enter(self, frame: FrameType) -> None:
        """A call begins."""
        inner = frame.f_locals
        for name in self._parameters:
            if name in inner:
                self._tell("given", name, self.code.co_firstlineno, inner[name])
        self._frames[id(frame)] = self._state(frame, self.code.co_firstlineno)

    def resume(self, frame: FrameType) -> None:
        """A generator or coroutine goes on."""
        self._frames[id(frame)] = self._state(frame, frame.f_lineno or self.code.co_firstlineno)

    def step(self, frame: FrameType, line: int) -> None:
        """A line is about to run."""
        state = self._frames.get(id(frame))
        if state is None:
            self._frames[id(frame)] = self._state(frame, line)
        else:
            self._compare(frame, state)
            state[0] = line

    def leave(self, frame: FrameType) -> None:
        """The frame returns, yields or raises: nothing of it is held any longer."""
        state = self._frames.pop(id(frame), None)
        if state is not None:
            self._compare(frame, state)

    def _state(self, frame: FrameType, line: int) -> list[Any]:
        inner, outer = frame.f_locals, frame.f_globals
        values = [inner.get(name, MISSING) for name in self._locals]
        return [line, *values, *(outer.get(name, MISSING) for name in self._globals)]

    def _compare(self, frame: FrameType, state: list[Any]) -> None:
        """Report what the last line did; runs for every line."""
        inner = frame.f_locals
        index = 1
        for name in self._locals:
            now = inner.get(name, MISSING)
            if now is not state[index] or type(now) not in ATOMS:
                self._report_change(name, state[0], state[index], now)
                state[index] = now
            index += 1
        for name in self._globals:
            now = frame.f_globals.get(name, MISSING)
            if now is not state[index] or type(now) not in ATOMS:
                self._report_change(name, state[0], state[index], now)
                state[index] = now
            index += 1

    def _report_change(self, name: str, line: int, before: Any, now: Any) -> None:
        if now is MISSING:
            self._tell("deleted", name, line, None)
        elif before is MISSING or (now is not before and not is_same_atom(now, before)):
            self._tell("bound", name, line, now)
        elif type(now) not in ATOMS:
            self._tell("maybe", name, line, now)

    def _tell(self, moment: Moment, name: str, line: int, value: Any) -> None:
        key = (moment, name, line)
        point = self._points.get(key)
        if point is None:
            point = self._points[key] = Point(moment, name, line, self.code.co_qualname, self.code.co_filename)
        self._report(point, value)


def is_same_atom(now: Any, before: Any) -> bool:
    """Whether two values are equal, of a type where that means the same: NaN is NaN, and 0.0 is not -0.0."""
    if type(now) is not type(before) or type(now) not in ATOMS:
        return False
    return repr(now) == repr(before) if type(now) in (float, complex) else bool(now == before)


def global_names(code: CodeType) -> list[str]:
    """The names that a code object reads, binds or deletes as globals, in order."""
    found = (step.argval for step in dis.get_instructions(code) if step.opname in GLOBAL_INSTRUCTIONS)
    return list(dict.fromkeys(found))


class LineFollower:
    """Follows variables of functions line by line, between `start` and `stop`.

    >>> def double(value):
    ...     result = value * 2
    ...     return result
    >>> follower = LineFollower()
    >>> follower.start([double.__code__], {"result"}.__contains__, lambda point, value: print(point.line, value))
    >>> double(4)
    2 8
    8
    >>> follower.stop()
    """

    def __init__(self) -> None:
        self._probe: Monitoring | Tracing | None = None

    def start(self, codes: Iterable[CodeType], wanted: Callable[[str], bool], report: Report) -> None:
        """Follow the wanted names in these functions, and in those nested in them; `report` must not raise."""
        if self._probe is not None:
            raise RuntimeError("this LineFollower was started already: stop it first, or make another one")
        every = [each for code in codes for each in (code, *nested_codes(code)) if is_function(each)]
        watched = [Watched(code, wanted, report) for code in every]
        found = {id(each.code): each for each in watched if each.has_names}
        tool = free_tool()
        self._probe = Tracing(found) if tool is None else Monitoring(found, tool)
        self._probe.start()

    def stop(self) -> None:
        """Stop, and leave everything as it was; does nothing when it does not run."""
        if self._probe is not None:
            self._probe.stop()
        self._probe = None


def is_function(code: CodeType) -> bool:
    """Whether the code is that of a function: not of a class or a comprehension, whose names are no variables."""
    return bool(code.co_flags & 0x01) and code.co_name not in COMPREHENSIONS


def free_tool() -> int | None:
    """A tool id of `sys.monitoring` that nobody uses; None when there is none."""
    if sys.version_info < (3, 12):
        return None
    return next((tool for tool in TOOL_IDS if sys.monitoring.get_tool(tool) is None), None)


class Monitoring:
    """Events of the interpreter for just the code objects that are watched."""

    def __init__(self, watched: dict[int, Watched], tool: int) -> None:
        self._watched = watched
        self._tool = tool

    if sys.version_info >= (3, 12):

        def start(self) -> None:
            """Ask for the events."""
            monitoring, events = sys.monitoring, sys.monitoring.events
            monitoring.use_tool_id(self._tool, "insitu")
            for event, callback in self._callbacks().items():
                monitoring.register_callback(self._tool, event, callback)
            local = events.LINE | events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD
            for watched in self._watched.values():
                monitoring.set_local_events(self._tool, watched.code, local)
            # There is no local event for a frame that raises.
            monitoring.set_events(self._tool, events.PY_UNWIND)

        def stop(self) -> None:
            """Ask for no event any more, and give the tool id back."""
            for watched in self._watched.values():
                sys.monitoring.set_local_events(self._tool, watched.code, 0)
            sys.monitoring.set_events(self._tool, 0)
            for event in self._callbacks():
                sys.monitoring.register_callback(self._tool, event, None)
            sys.monitoring.free_tool_id(self._tool)

        def _callbacks(self) -> dict[int, Callable[..., object]]:
            events = sys.monitoring.events
            return {
                events.LINE: self._line,
                events.PY_START: self._start,
                events.PY_RESUME: self._resume,
                events.PY_RETURN: self._leave,
                events.PY_YIELD: self._leave,
                events.PY_UNWIND: self._leave,
            }

    else:

        def start(self) -> None:
            """Never called: there is no `sys.monitoring`."""

        stop = start

    def _line(self, code: CodeType, line: int) -> None:
        self._watched[id(code)].step(sys._getframe(1), line)

    def _start(self, code: CodeType, offset: int) -> None:
        self._watched[id(code)].enter(sys._getframe(1))

    def _resume(self, code: CodeType, offset: int) -> None:
        self._watched[id(code)].resume(sys._getframe(1))

    def _leave(self, code: CodeType, offset: int, value: Any) -> None:
        watched = self._watched.get(id(code))
        if watched is not None:
            watched.leave(sys._getframe(1))


class Tracing:
    """A trace function that calls the one it takes the place of, here and in the threads started meanwhile."""

    def __init__(self, watched: dict[int, Watched]) -> None:
        self._here = Chained(watched)
        self._in_threads = Chained(watched)

    def start(self) -> None:
        """Take the place of the trace functions."""
        self._in_threads.before = threading.gettrace()
        self._here.before = sys.gettrace()
        threading.settrace(self._in_threads)
        sys.settrace(self._here)

    def stop(self) -> None:
        """Put the trace functions back, unless another one stands on top; other threads do so on their next call."""
        self._here.active = self._in_threads.active = False
        if is_installed(self._here):
            sys.settrace(self._here.below())
        in_threads: object = threading.gettrace()
        if in_threads is self._in_threads:
            threading.settrace(self._in_threads.below())


class Chained:
    """The trace function: sees the calls of all functions, and the lines of those that are watched."""

    def __init__(self, watched: dict[int, Watched]) -> None:
        self.active = True
        self.before: Tracer | None = None
        self._watched = watched

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        if self.before is None and self.active:
            watched = self._watched.get(id(frame.f_code))
            return None if watched is None else self._begin(watched, frame, None)
        installed = is_installed(self)
        inner = self.before(frame, event, argument) if self.before is not None else None
        if installed:
            self._stay_or_go()
        watched = self._watched.get(id(frame.f_code)) if self.active else None
        return inner if watched is None else self._begin(watched, frame, inner)

    def below(self) -> Tracer | None:
        """What is to be restored: the function before, or what was before it if that one has stopped meanwhile."""
        before = self.before
        while isinstance(before, Chained) and not before.active:
            before = before.before
        return before

    def _stay_or_go(self) -> None:
        """Stay in place, for some trace functions put themselves, or nothing, there; leave once all is over."""
        if not is_installed(self):
            self.before = sys.gettrace()
        if not self.active:
            sys.settrace(self.below())
        elif not is_installed(self):
            sys.settrace(self)

    def _begin(self, watched: Watched, frame: FrameType, inner: Tracer | None) -> Tracer:
        """The trace function of one frame, which calls that of the debugger for the frame, if there is one."""
        (watched.enter if is_start(frame) else watched.resume)(frame)

        def trace(frame: FrameType, event: str, argument: Any) -> Tracer:
            nonlocal inner
            if inner is not None:
                inner = inner(frame, event, argument) or inner
            if self.active and event == "line":
                watched.step(frame, frame.f_lineno)
            elif self.active and event == "return":
                watched.leave(frame)
            return trace

        return trace


def is_installed(tracer: Chained) -> bool:
    """Whether the interpreter calls this trace function itself."""
    current: object = sys.gettrace()
    return current is tracer


def is_start(frame: FrameType) -> bool:
    """Whether a call begins, rather than a generator or coroutine that goes on."""
    code = frame.f_code
    if not code.co_flags & GENERATOR_FLAGS:
        return True
    instruction, argument = code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return dis.opname[instruction] == "RESUME" and argument == 0
