"""How far two runs agree between which no difference has an effect, in a sentence."""

from __future__ import annotations

from typing import Any

from insitu.trace.diff import Compared, Diff, Difference, largest
from insitu.trace.event import Call, tensors
from insitu.view.headline import has_steps, name_in_module, size_text
from insitu.view.name import spot

QUIET = ("same", "close", "follows")  # the statuses of calls that tell nothing new


def agreement(diff: Diff) -> str:
    """How far two runs agree between which no difference has an effect.

    >>> agreement(Diff())
    'nothing to compare: neither run has a call'
    """
    if not any(diff.counts.values()):
        return _no_comparison(diff)
    known = _COMPARED_BY[diff.certainty]
    statuses = set(diff.counts)
    if statuses == {"same"}:
        return f"the same: {_amount(diff)}, {known}"
    if statuses <= {"same", "close"}:
        return f"{_within(diff)}, {known}"
    different = sum(amount for status, amount in diff.counts.items() if status not in QUIET)
    verb = "call is" if different == 1 else "calls are"
    return f"{results_text(diff)}; {different:,} {verb} made differently on the way: {_amount(diff)}, {known}"


# The statuses of results that agree: within the tolerance, or by other calls.
_AGREEING = ("close", "structure", "argument", "only in a", "only in b")
_COMPARED_BY = {
    "values": "compared by their values",
    "statistics": "compared by statistics, so equal only as far as these show",
    "structure": "some compared by shapes, dtypes and arguments only: no values were kept",
}


def _no_comparison(diff: Diff) -> str:
    if diff.unpaired:
        return "nothing to compare: no call is in both runs"
    return "nothing to compare: neither run has a call"


def _within(diff: Diff) -> str:
    """That two runs are equal within the tolerance, and how close they come to it."""
    row = diff.largest
    assert row is not None
    rtol, atol = tolerance_of(diff, row)
    return (
        f"equal within rtol {rtol:g}, atol {atol:g}: {_amount(diff)}, {diff.counts['close']:,} of them not exactly "
        f"the same (largest difference: {size_text(row)}, in {_where(diff, row)})"
    )


def results_text(diff: Diff) -> str:
    """That the results agree, and how far."""
    if diff.certainty == "structure" and not diff.causes:
        return "no difference is known to have an effect"
    row = largest([row for row in diff.results if row.measure and row.status in _AGREEING])
    if row is None:
        return "the results are the same"
    rtol, atol = tolerance_of(diff, row)
    return f"the results agree within rtol {rtol:g}, atol {atol:g} (largest difference: {size_text(row)})"


def tolerance_of(diff: Diff, row: Difference) -> tuple[float, float]:
    """The tolerance by which the values of a row were compared."""
    values = [_value(event) for event in row.events]
    dtypes = [facts.dtype for facts in tensors(values) if facts.dtype in diff.tolerance.table]
    if not dtypes:
        return diff.tolerance.of("f32", "f32")  # that of a Python number
    return diff.tolerance.of(dtypes[0], dtypes[-1])


def _value(event: Compared) -> Any:
    if isinstance(event, Call):
        return event.result
    return event.value


def _where(diff: Diff, row: Difference) -> str:
    """The call or variable of a row, and its place."""
    event = row.events[0]
    texts = [name_in_module(event)]
    if event.site is not None and isinstance(event, Call):
        texts.append(spot(event.site))
    if has_steps(diff):
        texts.append(f"step {event.step}")
    return ", ".join(texts)


def _amount(diff: Diff) -> str:
    """How much was compared: calls, or values of variables."""
    count = sum(diff.counts.values())
    events = [row.events[0] for row in diff.differences]
    if any(isinstance(event, Call) for event in events):
        return f"{count:,} call{'s' * (count != 1)}"
    names = {event.name for event in events}
    return f"{count:,} value{'s' * (count != 1)} of {len(names):,} variable{'s' * (len(names) != 1)}"
