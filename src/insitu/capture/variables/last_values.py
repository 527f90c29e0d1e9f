"""The last values of watched variables: plain numbers are compared only when they are decoded."""

from __future__ import annotations

from typing import Any

from insitu.capture.tape import VariableEntry
from insitu.capture.variables.follow.code_variables import is_same_atom
from insitu.trace.event import Change

ABSENT, OTHER = object(), object()


class LastValues:
    """The last value of each variable of each watched call: a number, or OTHER for anything else."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str, str], Any] = {}

    def copy(self) -> LastValues:
        """A copy that later changes do not reach."""
        same = LastValues()
        same._values = dict(self._values)
        return same

    def forget(self, calls: range) -> None:
        """Forget calls that have ended."""
        self._values = {key: value for key, value in self._values.items() if key[0] not in calls}

    def changes(self, call: int, entry: VariableEntry, item: Any) -> tuple[Change, ...]:
        """What has changed of a variable that is set now, in this call; nothing if the number is the same."""
        key = (call, entry.point.function, entry.name)
        before = self._values.get(key, ABSENT)
        if entry.changes is not None:
            self._values[key] = ABSENT if entry.changes == ("deleted",) else OTHER
            return tracked_changes(entry.changes, before)
        self._values[key] = item
        if entry.point.moment == "given":
            return ()
        return number_changes(before, item)


def tracked_changes(changes: tuple[Change, ...], before: Any) -> tuple[Change, ...]:
    """What has changed of a variable that the tracker has compared; it does not know of plain numbers in between."""
    was_number = before is not ABSENT and before is not OTHER
    if was_number and changes not in ((), ("deleted",)):
        return ("type",)
    return changes


def number_changes(before: Any, now: Any) -> tuple[Change, ...]:
    """What has changed of a variable that is a plain number now."""
    if before is ABSENT:
        return ("new",)
    if type(before) is not type(now):
        return ("type",)
    if is_same_atom(now, before):
        return ()
    return ("values",)
