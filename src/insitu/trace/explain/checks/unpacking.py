"""Mistakes of plain Python: None where a value is needed, more or fewer names than values."""

from __future__ import annotations

import re
from typing import Any

from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case
from insitu.trace.explain.checks.registry import Checks
from insitu.trace.explain.explanation import Misfit
from insitu.trace.explain.messages import NONE

CHECKS = Checks()
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")


@CHECKS.add(says=NONE)
def value_is_none(case: Case, match: re.Match[str]) -> Misfit | None:
    """A name whose value is None."""
    if not case.missing:
        return None
    missing = case.missing[0]
    if not missing.returned_by:
        return Misfit(f"{missing.name} is None")
    text = f"{missing.name} is None: {missing.returned_by} returned nothing"
    return Misfit(text, way_out="does it end without `return`?")


@CHECKS.add(says=r"not enough values to unpack \(expected (?:at least )?(\d+), got (\d+)\)")
def too_few_values(case: Case, match: re.Match[str]) -> Misfit:
    """Fewer values than names."""
    return _count_mismatch(case, int(match[2]), int(match[1]))


@CHECKS.add(says=r"too many values to unpack \(expected (\d+)")
def too_many_values(case: Case, match: re.Match[str]) -> Misfit:
    """More values than names."""
    return _count_mismatch(case, _length(case.unpacked), int(match[1]))


def _count_mismatch(case: Case, values: int | None, names: int) -> Misfit:
    text, item = f"{_quantity(values, 'value')} for {_quantity(names, 'name')}", case.unpacked
    if not isinstance(item, TensorFacts):
        return Misfit(text)
    text = f"{text}: a tensor gives as many as its first dimension"
    return Misfit(text, case.rows(value=item), -len(item.shape))


def _length(item: Any) -> int | None:
    if isinstance(item, TensorFacts):
        if item.shape:
            return int(item.shape[0])
        return None
    if isinstance(item, (list, tuple, dict)):
        return len(item)
    return None


def _quantity(count: int | None, noun: str) -> str:
    """`one value`, `12 names`, `more values`."""
    if count is None:
        return f"more {noun}s"
    number = NUMBERS[count] if count < len(NUMBERS) else str(count)
    return f"{number} {noun}{'s' * (count != 1)}"
