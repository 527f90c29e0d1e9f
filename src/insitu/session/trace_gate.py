"""Parts of a program in a trace: some steps, or what some functions do. Between them, nothing is recorded."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import FrameType
from typing import Any

from insitu.capture.modules import patch
from insitu.capture.recorder import Recorder
from insitu.capture.step_rule import StepRule
from insitu.capture.values.loop_targets import CodePlace
from insitu.capture.variables.follow.report_plan import Extras
from insitu.capture.variables.follow.rewrite import ReportPoint
from insitu.capture.variables.reporters import recordings
from insitu.capture.variables.swaps import swaps
from insitu.errors import Troubles, is_interrupt
from insitu.session.script_functions import ScriptFunctions
from insitu.trace.path import Pattern
from insitu.trace.step_choice import StepChoice

ENDS = Extras(ends=True)


class TraceGate:
    """Lets a recorder rest as long as one of its conditions is not met."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._lock = threading.RLock()
        self._unmet: set[object] = set()
        self._step: int | None = None  # the step that runs now, if its mark is not in the trace yet
        self._trouble = Troubles()
        self.conditions: list[Condition] = []

    def start(self, recorder: Recorder, undo: ExitStack) -> None:
        """Record nothing until all conditions are met."""
        self._recorder = recorder
        recorder.rest()
        patch.expect_sessions()
        for condition in self.conditions:
            self._unmet.add(condition)
            condition.start(self, undo)

    def set(self, condition: object, *, is_met: bool) -> None:
        """A condition is met now, or not any more."""
        with self._lock:
            if is_met:
                self._unmet.discard(condition)
            else:
                self._unmet.add(condition)
            self._settle()

    def begin_step(self, number: int) -> None:
        """A step begins: its number goes into the trace with the first call that is recorded."""
        self._step = number

    def _settle(self) -> None:
        assert self._recorder is not None
        try:
            if self._unmet:
                self._recorder.rest()
                return
            self._recorder.resume()
            number, self._step = self._step, None
            if number is not None:
                self._recorder.step(number)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._trouble("choosing what is in the trace", error)


class StepCondition:
    """A step is wanted."""

    def __init__(self, choice: StepChoice, rule: StepRule) -> None:
        self._choice, self._rule = choice, rule
        self._gate: TraceGate | None = None
        self._count = 0  # how many steps have begun
        self._was_met = False

    def start(self, gate: TraceGate, undo: ExitStack) -> None:
        """Begin to count."""
        self._gate = gate
        self._rule.listeners.append(self._begin)
        undo.callback(self._rule.listeners.remove, self._begin)

    def _begin(self, training: bool | None) -> None:
        assert self._gate is not None
        number, self._count = self._count, self._count + 1
        is_met = number in self._choice
        self._was_met = self._was_met or is_met
        self._gate.begin_step(number)
        self._gate.set(self, is_met=is_met)

    @property
    def unmet_text(self) -> str | None:
        """Why the condition was never met; None if it was."""
        if self._was_met:
            return None
        return f"--steps {self._choice.text}: none of these steps ran; {self._steps_text()}"

    def _steps_text(self) -> str:
        if self._count == 0:
            return "no model was called, and no optimizer made an update"
        last = "" if self._count == 1 else f" … {self._count - 1}"
        return f"the script made {self._count:,} step{'s' * (self._count != 1)}: 0{last}"


class FunctionCondition:
    """One of some functions of the script runs; they are found when the script has defined them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name: Pattern.of(name).segments for name in names}
        self._functions = ScriptFunctions()
        self._gate: TraceGate | None = None
        self._undo = ExitStack()
        self._places: dict[CodePlace, str] = {}
        self._running = 0
        self._called: set[str] = set()

    def start(self, gate: TraceGate, undo: ExitStack) -> None:
        """Begin to look for the functions."""
        self._gate = gate
        recordings.append(self.hear)
        undo.callback(recordings.remove, self.hear)
        undo.callback(self._undo.close)

    def hear(self, point: ReportPoint, value: Any, frame: FrameType) -> None:
        """The script has defined something, or one of the functions begins or ends."""
        if point.moment == "defined":
            self._find(frame.f_globals)
        elif point.moment in ("entered", "left") and (point.file, point.function) in self._places:
            assert self._gate is not None
            self._called.add(self._places[point.file, point.function])
            self._running += 1 if point.moment == "entered" else -1
            self._gate.set(self, is_met=self._running > 0)

    @property
    def unmet_text(self) -> str | None:
        """Why the condition was never met; None if it was."""
        if self._called:
            return None
        name = next(iter(self._names))
        if name in self._places.values():
            return f"--only {name}: the script did not call this function"
        return f"--only {name}: the script has no such function; a method is named with its class, as in Trainer.run"

    def _find(self, namespace: Mapping[str, Any]) -> None:
        search = self._functions.search(namespace)
        for name, segments in self._names.items():
            for function in search.named(segments):
                code = function.__code__
                self._places[code.co_filename, code.co_qualname] = name
                self._undo.enter_context(swaps.swapped([function], (), ENDS))
                break


Condition = StepCondition | FunctionCondition
