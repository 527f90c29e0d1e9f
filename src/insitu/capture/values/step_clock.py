"""The steps of a recording: where one begins, which number it has, and whether its values are recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `fitting` counts the steps so far that `when` admits, this one included."""

    number: int = -1
    is_recorded: bool = False
    fitting: int = 0

    def ended(self) -> Step:
        """The step after its last value: nothing is recorded until the next one begins."""
        return replace(self, is_recorded=False)


class StepClock:
    """The step that runs now. Each outermost call of the model is a step, until the user announces the steps."""

    def __init__(self, every: int, when: str | None) -> None:
        self._every, self._when = every, when
        self.step = Step()
        self.is_announced = False

    def following(self, *, training: bool, number: int | None = None) -> Step:
        """The step after the current one: it is recorded if `when` admits it, and then each `every`-th.

        >>> clock = StepClock(every=2, when="train")
        >>> for training in (True, True, False, True):
        ...     clock.step = clock.following(training=training)
        ...     print(clock.step.number, clock.step.is_recorded)
        0 True
        1 False
        2 False
        3 True
        """
        fits = self._when is None or training == (self._when == "train")
        is_due = self.step.fitting % self._every == 0
        next_number = self.step.number + 1 if number is None else number
        return Step(next_number, fits and is_due, self.step.fitting + fits)
