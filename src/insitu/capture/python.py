"""The handlers of watched Python functions: their calls, and the values they yield."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from insitu.capture.calls import PythonCallee
from insitu.capture.explain.note import add_note
from insitu.capture.modes import as_anchor
from insitu.capture.ops import phase_of
from insitu.capture.outline import outline
from insitu.capture.tape import ENTERED, FORWARD, LEFT, Raised, VariableEntry, new_record
from insitu.capture.tensors import GIVEN, Value, Values, guarded
from insitu.capture.variables.follow.rewrite import ReportPoint

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe
Run = Callable[..., Any]


class PythonCalls:
    """Records the calls of watched functions. What runs inside of one is its child, in the module it was called in."""

    def __init__(self, probe: Probe, values: Values) -> None:
        self._probe = probe
        self.look = make_look(probe, guarded(values))
        self.on_call = as_anchor(make_on_call(probe, self))
        self.on_step = as_anchor(make_on_step(probe, self))

    def begin(self, callee: PythonCallee, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> int:
        """Record a call that begins; returns its offset, which is negative if that failed."""
        probe, at = self._probe, -1
        try:
            phase = phase_of(probe, frame) if probe.backward else FORWARD
            record = new_record(callee, probe.parent, phase=phase, args=len(args), kwargs=2 * len(kwargs))
            record += map(self.look, args)
            for name, item in kwargs.items():
                record += (name, self.look(item))
            probe.stack(frame, record)
            at = probe.append(record)
            if probe.open is not None:
                probe.open(probe, at)
        except BaseException as error:
            return probe.give_up(at, error)
        return at

    def end(self, at: int, result: Any) -> None:
        """Record the result of a call."""
        probe = self._probe
        if probe.over:
            return
        ended, recorded = probe.clock(), None
        try:
            recorded = result if isinstance(result, Raised) else self.look(result)
        except Exception as error:
            probe.trouble("recording a result", error)
        probe.tape.finish(at, ended, recorded)
        if probe.close is not None:
            probe.close(probe, at)
        elif probe.follows:
            self.leave(at)

    def enter(self, at: int) -> None:
        """A call that was left goes on."""
        if self._probe.live is None:
            self._probe.tape += (ENTERED, at)

    def leave(self, at: int) -> None:
        """What comes now is not inside of the call."""
        if self._probe.live is None:
            self._probe.tape += (LEFT, at)

    def yielded(self, at: int, frame: FrameType, value: Any) -> None:
        """Record a value that a generator has yielded."""
        probe, code = self._probe, frame.f_code
        if probe.over:
            return
        outer, probe.parent = probe.parent, at
        self.enter(at)
        try:
            point = ReportPoint("bound", "yield", frame.f_lineno, code.co_qualname, code.co_filename)
            probe.change(VariableEntry(point, "yield", ("yielded",)), self.look(value))
        except Exception as error:
            probe.trouble("recording a yielded value", error)
        finally:
            probe.parent = outer
            self.leave(at)


def make_look(probe: Probe, values: Values) -> Callable[[Any], Any]:
    """The function that makes the form in which a record holds a value.

    Where operations are recorded, a tensor keeps the value that the operation gave it.
    """
    fresh = values.fresh

    def argument_value(tensor: Any) -> Value:
        return fresh(tensor, GIVEN)

    leaf = values.current if probe.tape.level != "python" else argument_value
    return lambda item: outline(item, leaf)


def make_on_call(probe: Probe, calls: PythonCalls) -> Run:
    """The handler of calls."""

    def on_call(callee: PythonCallee, run: Run, /, *args: Any, **kwargs: Any) -> Any:
        at = calls.begin(callee, args, kwargs, _getframe(1))
        if at < 0:
            return run(*args, **kwargs)
        outer = (probe.parent, probe.function)
        probe.parent, probe.function = at, False
        result: Any = None
        try:
            result = run(*args, **kwargs)
            return result
        except BaseException as error:
            result = Raised(error)
            add_note(error, probe, at)
            raise
        finally:
            probe.parent, probe.function = outer
            calls.end(at, result)

    return on_call


def make_on_step(probe: Probe, calls: PythonCalls) -> Run:
    """The handler of one step of a call that is left and entered again."""

    def on_step(at: int, run: Run, /, *arguments: Any) -> Any:
        outer = (probe.parent, probe.function)
        probe.parent, probe.function = at, False
        calls.enter(at)
        try:
            return run(*arguments)
        finally:
            probe.parent, probe.function = outer
            calls.leave(at)

    return on_step
