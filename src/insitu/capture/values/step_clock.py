"""The steps of a recording: which number each has, and whether its values are recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `fitting` counts the steps so far that `when` admits, this one included.

    A step that a pass of a loop begins is not `is_settled`: it is not known yet whether the model will train in it.
    """

    number: int = -1
    is_recorded: bool = False
    fitting: int = 0
    is_settled: bool = True

    def ended(self) -> Step:
        """The step after its last value: nothing is recorded until the next one begins."""
        return replace(self, is_recorded=False)


class StepClock:
    """The step that runs now. A `StepRule` says where each begins, until the user announces the steps."""

    def __init__(self, every: int, when: str | None) -> None:
        self._every, self._when = every, when
        self.step = Step()
        self.is_announced = False

    def following(self, *, training: bool | None, number: int | None = None) -> Step:
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
        is_admitted = training is None or self._when is None  # not by `_fits`, which is a call for each step
        fits = is_admitted or self._fits(bool(training))
        is_due = self.step.fitting % self._every == 0
        next_number = self.step.number + 1 if number is None else number
        return Step(next_number, fits and is_due, self.step.fitting + fits, is_settled=training is not None)

    def settled(self, *, training: bool) -> Step:
        """The current step once the model is called in it: if `when` does not admit it, it is not recorded after all.

        >>> clock = StepClock(every=1, when="train")
        >>> clock.step = clock.following(training=None)
        >>> clock.settled(training=False)
        Step(number=0, is_recorded=False, fitting=0, is_settled=True)
        """
        if self._fits(training):
            return replace(self.step, is_settled=True)
        return replace(self.step, is_recorded=False, fitting=self.step.fitting - 1, is_settled=True)

    def _fits(self, training: bool) -> bool:
        """Whether `when` admits a step in this mode."""
        return self._when is None or training == (self._when == "train")
