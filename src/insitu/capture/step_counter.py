"""The steps that the records on a tape belong to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from insitu.capture.names import ModuleCallee
from insitu.capture.tape import MarkEntry


class StepCounter:
    """Counts the steps: each outermost call of the subject is one, until a mark has said where they begin.

    Records of another thread may come later than a step that began after them: the times say which step was theirs.
    """

    def __init__(self) -> None:
        self._said = self._begun = self._called = False
        self._numbers = [0]
        self._begins: list[float] = []  # when each step but the first one began

    @classmethod
    def of_steps(cls, begins: Sequence[tuple[int, float]]) -> StepCounter:
        """A counter for steps that are known: the number of each, and when it began.

        What was before them is in the step before; step 0 has no step before it.

        >>> counter = StepCounter.of_steps([(7, 1.0), (8, 2.0)])
        >>> [counter.of(None, None, time) for time in (0.5, 1.5, 2.5)]
        [6, 7, 8]
        """
        counter = cls()
        counter._said = True
        if begins:
            counter._numbers = [max(0, begins[0][0] - 1), *(number for number, _ in begins)]
            counter._begins = [time for _, time in begins]
        return counter

    @property
    def current(self) -> int:
        """The number of the step that began last."""
        return self._numbers[-1]

    def __copy__(self) -> StepCounter:
        same = StepCounter()
        same.__dict__.update(self.__dict__, _begins=list(self._begins), _numbers=list(self._numbers))
        return same

    def of(self, callee: Any, inherited: int | None, time: float) -> int:
        """The step of a record; `inherited` is that of its parent, None for an outermost one."""
        if isinstance(callee, (MarkEntry, ModuleCallee)):
            self._look_at(callee, time, is_outermost=inherited is None)
        self._begun = True
        if inherited is not None and not self._said:
            return inherited
        is_late = bool(self._begins) and time < self._begins[-1]
        if is_late:
            return self._numbers[bisect_right(self._begins, time)]
        return self._numbers[-1]

    def _look_at(self, callee: MarkEntry | ModuleCallee, time: float, *, is_outermost: bool) -> None:
        """Count a step that a record begins."""
        if isinstance(callee, MarkEntry):
            self._look_at_mark(callee, time)
            return
        is_call_of_subject = is_outermost and callee.subject
        if is_call_of_subject and not self._said:
            self._count(time, is_new=self._called)
            self._called = True

    def _look_at_mark(self, entry: MarkEntry, time: float) -> None:
        if entry.mark == "step":
            self._count(time, is_new=self._begun or self._said, number=entry.number)
            self._said = True

    def _count(self, time: float, *, is_new: bool, number: int | None = None) -> None:
        if is_new:
            self._numbers.append(self.current + 1 if number is None else number)
            self._begins.append(max([time, *self._begins[-1:]]))
        elif number is not None:
            self._numbers[-1] = number
