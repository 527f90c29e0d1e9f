"""Some steps of a program in a trace: between them, nothing is recorded."""

from __future__ import annotations

from contextlib import ExitStack

from insitu.capture.modules import patch
from insitu.capture.recorder import Recorder
from insitu.capture.step_rule import StepRule
from insitu.errors import Troubles, is_interrupt
from insitu.trace.step_choice import StepChoice


class TraceSteps:
    """Lets a recorder rest until a step begins that is wanted; `count` is how many steps have begun."""

    def __init__(self, choice: StepChoice, rule: StepRule) -> None:
        self._choice, self._rule = choice, rule
        self.count = 0
        self._recorder: Recorder | None = None
        self._trouble = Troubles()

    @property
    def text(self) -> str:
        """How many steps there were."""
        if self.count == 0:
            return "no model was called, and no optimizer made an update"
        last = "" if self.count == 1 else f" … {self.count - 1}"
        return f"the script made {self.count:,} step{'s' * (self.count != 1)}: 0{last}"

    def start(self, recorder: Recorder, undo: ExitStack) -> None:
        """Begin to choose: before the first step, nothing is recorded."""
        self._recorder = recorder
        recorder.rest()
        patch.expect_sessions()
        self._rule.listeners.append(self._begin)
        undo.callback(self._rule.listeners.remove, self._begin)

    def _begin(self, training: bool | None) -> None:
        number, self.count = self.count, self.count + 1
        try:
            self._choose(number)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._trouble("choosing the steps of the trace", error)

    def _choose(self, number: int) -> None:
        assert self._recorder is not None
        if number in self._choice:
            self._recorder.resume()
            self._recorder.step(number)
        else:
            self._recorder.rest()
