"""What a step is: one rule for recorded runs and for traces of scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

# What a step has had when it is over: a call of a model, the update of an optimizer, or a value that was recorded.
StepEnd = Literal["call", "update", "value"]


class StepRule:
    """A step is over once its end has happened. The next pass of a loop, or call of a model, begins another one.

    So everything in one pass of a training loop has one number: the batch, the call of the model, the loss, the update,
    and what is computed after the update.

    >>> rule, begun = StepRule("update"), []
    >>> rule.listeners.append(begun.append)
    >>> for happening in (rule.begin, rule.begin, lambda: rule.note("update"), rule.begin):
    ...     happening()
    >>> len(begun)
    2
    """

    def __init__(self, end: StepEnd) -> None:
        self.end = end
        self.is_over = True
        self._has_begun = False
        self.listeners: list[Callable[[bool | None], None]] = []
        self.at_end: list[Callable[[], None]] = []  # called where a step ends

    def begin(self, training: bool | None = None) -> None:
        """A pass of a loop, or a call of a model in this mode, begins; if the step is over, another one does."""
        if self.is_over:
            self.is_over, self._has_begun = False, True
            for listener in self.listeners:
                listener(training)

    def count_calls(self) -> None:
        """From now on a step ends with a call; the first call is in the step that has begun."""
        self.end = "call"
        self.is_over = not self._has_begun

    def note(self, event: StepEnd) -> None:
        """Something has happened that may end a step."""
        if event == self.end:
            self.is_over = True
            for listener in self.at_end:
                listener()
