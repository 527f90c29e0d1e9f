"""What watched variables were before they changed: plain numbers are compared only when they are decoded."""

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
        """The same values, which change on their own."""
        same = LastValues()
        same._values = dict(self._values)
        return same

    def forget(self, calls: range) -> None:
        """These calls are over."""
        self._values = {key: value for key, value in self._values.items() if key[0] not in calls}

    def changes(self, call: int, entry: VariableEntry, item: Any) -> tuple[Change, ...]:
        """What has changed of a variable that is set now, in this call; nothing if the number is the same."""
        values, key = self._values, (call, entry.point.function, entry.name)
        before = values.get(key, ABSENT)
        if entry.changes is not None:
            values[key] = ABSENT if entry.changes == ("deleted",) else OTHER
            was_number = before is not ABSENT and before is not OTHER
            return ("type",) if was_number and entry.changes not in ((), ("deleted",)) else entry.changes
        values[key] = item
        if entry.point.moment == "given":
            return ()
        if before is ABSENT:
            return ("new",)
        if type(before) is not type(item):
            return ("type",)
        return () if is_same_atom(item, before) else ("values",)
