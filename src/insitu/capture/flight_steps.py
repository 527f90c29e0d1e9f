"""The steps of a guard that keeps the last steps: a step ends with the update of an optimizer.

So the batch, the call of the model, the loss and the update of one pass of a training loop are in one step; what the
program calls after the update is in the next. As long as no optimizer has stepped, a step begins with an outermost call
of the model.
"""

from __future__ import annotations

from contextlib import ExitStack

from torch import nn

from insitu.capture.flight_checks import FlightChecks
from insitu.capture.modes import skip_all_when_compiling
from insitu.capture.program_calls import ProgramCalls, SubjectCalls
from insitu.capture.step_rule import StepRule
from insitu.capture.updates import Updates


class FlightSteps:
    """Tells the checks where a step begins. `signs` counts what shows that the program goes on: steps and calls."""

    def __init__(self, checks: FlightChecks, subject: nn.Module | None) -> None:
        self._checks, self._subject = checks, subject
        self._rule = StepRule("value")
        self._has_updated = False
        self._passes = 0  # backward passes at the last update
        self.signs = 0

    def start(self, undo: ExitStack) -> None:
        """Listen to the optimizers, and to the model or, without one, to all models."""
        self._rule.listeners.append(self._begin)
        undo.callback(self._rule.listeners.clear)
        Updates(self._rule, self._end_with_update, is_fixed=False).start(undo)
        self._calls().start(undo)

    def _calls(self) -> ProgramCalls:
        if self._subject is None:
            return ProgramCalls(self._rule, self._hear_call, is_counted=True)
        return SubjectCalls(self._rule, self._subject, self._hear_call)

    def _hear_call(self, model: nn.Module) -> None:
        self.signs += 1

    def _begin(self, training: bool | None) -> None:
        self.signs += 1
        self._checks.begin_step()

    def _end_with_update(self) -> None:
        """An optimizer has updated the parameters: the next step begins here."""
        if not self._has_updated:
            self._has_updated = True
            self._begin_with_first_update()
        is_next_in_turn = 0 < self._checks.passes == self._passes  # one of several optimizers, after one backward pass
        self._passes = self._checks.passes
        if is_next_in_turn:
            self._rule.is_over = False
        else:
            self._rule.begin()

    def _begin_with_first_update(self) -> None:
        """Until now, each call of the model was taken for a step: all of them are in the first step."""
        if self._checks.ring.steps_begun:
            self._checks.ring.join_steps()
        else:
            self._checks.begin_step()


skip_all_when_compiling(FlightSteps._hear_call, FlightSteps._begin, FlightSteps._end_with_update)
