"""How far two runs agree between which no difference has an effect, in a sentence."""

from __future__ import annotations

from insitu.trace.diff import Diff, Difference, largest
from insitu.trace.event import Call, tensors
from insitu.view.headline import delta_text, has_steps, named
from insitu.view.name import spot

QUIET = ("same", "close", "follows")  # the statuses of calls that tell nothing new


def agreement(diff: Diff) -> str:
    """How far two runs agree between which no difference has an effect.

    >>> agreement(Diff())
    'nothing to compare: neither run has a call'
    """
    count = sum(diff.counts.values())
    if not count and not diff.unpaired:
        return "nothing to compare: neither run has a call"
    if not count:
        return "nothing to compare: no call is in both runs"
    known = {
        "values": "compared by their values",
        "statistics": "compared by statistics, so equal only as far as these show",
        "structure": "some compared by shapes, dtypes and arguments only: no values were kept",
    }[diff.certainty]
    if set(diff.counts) <= {"same"}:
        return f"the same: {_counted(diff)}, {known}"
    if set(diff.counts) <= {"same", "close"}:
        return f"{_within(diff)}, {known}"
    differently = sum(amount for status, amount in diff.counts.items() if status not in QUIET)
    verb = "call is" if differently == 1 else "calls are"
    return f"{results_text(diff)}; {differently:,} {verb} made differently on the way: {_counted(diff)}, {known}"


def _within(diff: Diff) -> str:
    """That two runs are equal within the tolerance, and how close they come to it."""
    row = diff.largest
    assert row is not None
    rtol, atol = tolerance_of(diff, row)
    return (
        f"equal within rtol {rtol:g}, atol {atol:g}: {_counted(diff)}, {diff.counts['close']:,} of them not exactly "
        f"the same (largest difference {delta_text(row)}: {_where(diff, row)})"
    )


def results_text(diff: Diff) -> str:
    """That the results agree, and how far."""
    if diff.certainty == "structure" and not diff.causes:
        return "no difference is known to have an effect"
    row = largest([row for row in diff.results if row.measure and row.status in ("close", "structure", "argument")])
    if row is None:
        return "the results are the same"
    rtol, atol = tolerance_of(diff, row)
    return f"the results agree within rtol {rtol:g}, atol {atol:g} (largest difference {delta_text(row)})"


def tolerance_of(diff: Diff, row: Difference) -> tuple[float, float]:
    """The tolerance by which the values of a row were compared."""
    held = [event.result if isinstance(event, Call) else event.value for event in row.events]
    dtypes = [facts.dtype for item in held for facts in tensors(item) if facts.dtype in diff.tolerance.table]
    return diff.tolerance.of(*(dtypes[0], dtypes[-1]) if dtypes else ("f32", "f32"))  # a Python number as f32


def _where(diff: Diff, row: Difference) -> str:
    """The call or variable of a row, and its place."""
    event = row.events[0]
    step = [f"step {event.step}"] if has_steps(diff) else []
    place = [spot(event.site)] if event.site is not None and isinstance(event, Call) else []
    return ", ".join([named(event), *place, *step])


def _counted(diff: Diff) -> str:
    """How much was compared: calls, or values of variables."""
    count = sum(diff.counts.values())
    events = [row.events[0] for row in diff.differences]
    if any(isinstance(event, Call) for event in events):
        return f"{count:,} call{'s' * (count != 1)}"
    names = {event.name for event in events}
    return f"{count:,} value{'s' * (count != 1)} of {len(names):,} variable{'s' * (len(names) != 1)}"
