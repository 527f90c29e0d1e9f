"""What does not fit for Python itself: None where a value is needed, names that are more or fewer than values."""

from __future__ import annotations

import re

from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import Misfit

SMALL = ("no", "one", "two", "three", "four", "five", "six")


def nothing(case: Case) -> Misfit | None:
    """A name whose value is None."""
    if "NoneType" not in case.message or not case.missing:
        return None
    missing = case.missing[0]
    if not missing.returned_by:
        return Misfit(f"{missing.name} is None")
    return Misfit(
        f"{missing.name} is None: {missing.returned_by} returned nothing", advice="does it end without `return`?"
    )


def unpacked(case: Case) -> Misfit | None:
    """More or fewer values than there are names for."""
    few = re.search(r"not enough values to unpack \(expected (?:at least )?(\d+), got (\d+)\)", case.message)
    many = re.search(r"too many values to unpack \(expected (\d+)", case.message)
    found = few or many
    if found is None:
        return None
    names, item = int(found[1]), case.unpacked
    has = int(few[2]) if few else _length(item)
    text = f"{_counted(has, 'value')} for {_counted(names, 'name')}"
    if isinstance(item, TensorFacts):
        rows = (case.row("value", item),)
        return Misfit(f"{text}: a tensor gives as many as its first dimension", rows, -len(item.shape))
    return Misfit(text)


def _length(item: object) -> int | None:
    if isinstance(item, TensorFacts):
        return int(item.shape[0]) if item.shape else None
    return len(item) if isinstance(item, (list, tuple, dict)) else None


def _counted(count: int | None, what: str) -> str:
    """`one value`, `12 names`, `more values`."""
    if count is None:
        return f"more {what}s"
    return f"{SMALL[count] if count < len(SMALL) else count} {what}{'s' * (count != 1)}"


CHECKS = (nothing, unpacked)
