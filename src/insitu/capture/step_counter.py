"""The steps that the records on a tape belong to."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from insitu.capture.names import ModuleCallee
from insitu.capture.tape import MarkEntry


class StepCounter:
    """Counts the steps: each outermost call of the subject is one, until a mark has said where they begin.

    Records of another thread may come later than a step that began after them: the times say which step was theirs.
    """

    def __init__(self) -> None:
        self.current = 0
        self._said = self._begun = self._called = False
        self._begins: list[float] = []  # when each step but the first one began

    def __copy__(self) -> StepCounter:
        same = StepCounter()
        same.__dict__.update(self.__dict__, _begins=list(self._begins))
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
            return bisect_right(self._begins, time)
        return self.current

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
            self._count(time, is_new=self._begun or self._said)
            self._said = True

    def _count(self, time: float, *, is_new: bool) -> None:
        if is_new:
            self.current += 1
            self._begins.append(max([time, *self._begins[-1:]]))
