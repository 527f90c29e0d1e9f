"""Variables followed line by line, without the source: for functions that cannot be rewritten.

Before a line runs, the variables are compared with what they were before the last line that ran in the same frame:
that line made the change. `sys.monitoring` watches just the functions asked for; where it is missing (Python 3.11, or
no tool id is free) a trace function does, and calls the one that was there before it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from insitu.capture.variables.follow.code_variables import CodeVariables, Report, is_function_like, reported_frame
from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.rewrite import COMPREHENSIONS
from insitu.capture.variables.follow.tracing import TraceFunctions

__all__ = ["LineFollower", "reported_frame"]

# 0 to 2 are for debuggers, coverage and profilers; 5 for optimizers.
TOOL_IDS = (3, 4, 5)


class LineFollower:
    """Follows variables of functions line by line, between `start` and `stop`.

    >>> def double(value):
    ...     result = value * 2
    ...     return result
    >>> follower = LineFollower()
    >>> follower.start([double.__code__], {"result"}.__contains__, lambda point, value: print(point.moment, value))
    >>> double(4)
    entered None
    bound 8
    8
    >>> follower.stop()
    """

    def __init__(self) -> None:
        self._probe: MonitoringEvents | TraceFunctions | None = None
        self._running: tuple[CodeVariables, FrameType] | None = None

    def start(
        self,
        codes: Iterable[CodeType],
        wanted: Callable[[str], bool],
        report: Report,
        frame: FrameType | None = None,
        *,
        closely: bool = False,
    ) -> None:
        """Follow the wanted names in these functions, and in those nested in them; `report` must not raise.

        A `frame` that runs already is followed from its current line on: what it has now is reported as given. Other
        calls of the same function are not followed, unless its code is among `codes`. With `closely`, each pass of a
        loop that changes a wanted variable is reported, and each binding even to the value that was there before.
        """
        if self._probe is not None:
            raise RuntimeError("this LineFollower was started already: stop it first, or make another one")
        found = watched_in(codes, wanted, report, closely=closely)
        self._running = joined(frame, found, wanted, report, closely=closely)
        tool = free_tool()
        joining = self._running and self._running[1]
        self._probe = TraceFunctions(found, joining) if tool is None else MonitoringEvents(found, tool)
        self._probe.start()

    def stop(self) -> None:
        """Report the changes of the last line and restore everything; does nothing if the follower does not run."""
        if self._probe is not None:
            self._probe.stop()
        if self._running is not None:
            watched, frame = self._running
            watched.leave(frame)
        self._probe = self._running = None


def watched_in(
    codes: Iterable[CodeType], wanted: Callable[[str], bool], report: Report, *, closely: bool
) -> dict[int, CodeVariables]:
    """The variables to follow in each code object, by the id of the code."""
    every = [each for code in codes for each in (code, *nested_codes(code)) if is_function(each)]
    watched = [CodeVariables(code, wanted, report, closely=closely) for code in every]
    return {id(each.code): each for each in watched if each.has_names}


def joined(
    frame: FrameType | None,
    found: dict[int, CodeVariables],
    wanted: Callable[[str], bool],
    report: Report,
    *,
    closely: bool,
) -> tuple[CodeVariables, FrameType] | None:
    """The variables to follow in a frame that runs already, added to `found`; None if there are none."""
    if frame is None:
        return None
    watched = found.get(id(frame.f_code)) or CodeVariables(frame.f_code, wanted, report, frame, closely=closely)
    if not watched.has_names:
        return None
    found[id(frame.f_code)] = watched
    watched.join(frame)
    return watched, frame


def is_function(code: CodeType) -> bool:
    """Whether code belongs to a function, and not to a class or a comprehension: their names are not followed."""
    return is_function_like(code) and code.co_name not in COMPREHENSIONS


def free_tool() -> int | None:
    """A free tool id of `sys.monitoring`; None if all are in use."""
    if sys.version_info < (3, 12):
        return None
    return next((tool for tool in TOOL_IDS if sys.monitoring.get_tool(tool) is None), None)


class MonitoringEvents:
    """Events of the interpreter for just the code objects that are watched."""

    def __init__(self, watched: dict[int, CodeVariables], tool: int) -> None:
        self._watched = watched
        self._tool = tool

    if sys.version_info >= (3, 12):

        def start(self) -> None:
            """Turn the events on."""
            monitoring, events = sys.monitoring, sys.monitoring.events
            monitoring.use_tool_id(self._tool, "insitu")
            for event, callback in self._callbacks().items():
                monitoring.register_callback(self._tool, event, callback)
            local = events.LINE | events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD
            for watched in self._watched.values():
                monitoring.set_local_events(self._tool, watched.code, local)
            # `sys.monitoring` has no local events for a frame that raises.
            raising = events.RAISE if any(watched.is_close for watched in self._watched.values()) else 0
            monitoring.set_events(self._tool, events.PY_UNWIND | raising)

        def stop(self) -> None:
            """Turn the events off, and free the tool id."""
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
                events.RAISE: self._raise,
            }

    else:

        def start(self) -> None:
            """Never called: this Python has no `sys.monitoring`."""

        stop = start

    def _line(self, code: CodeType, line: int) -> None:
        watched, frame = self._watched[id(code)], sys._getframe(1)
        if watched.covers(frame):
            watched.step(frame, line)

    def _start(self, code: CodeType, offset: int) -> None:
        watched, frame = self._watched[id(code)], sys._getframe(1)
        if watched.covers(frame):
            watched.enter(frame)

    def _resume(self, code: CodeType, offset: int) -> None:
        watched, frame = self._watched[id(code)], sys._getframe(1)
        if watched.covers(frame):
            watched.resume(frame)

    def _raise(self, code: CodeType, offset: int, error: BaseException) -> None:
        watched = self._watched.get(id(code))
        if watched is not None:
            watched.note_raise(sys._getframe(1))

    def _leave(self, code: CodeType, offset: int, value: Any) -> None:
        watched = self._watched.get(id(code))
        if watched is not None:
            watched.leave(sys._getframe(1))
