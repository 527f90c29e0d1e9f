"""What a cause does to the result of a run, and how far the runs are from a reference, in lines."""

from __future__ import annotations

from math import isinf

from insitu.trace.compare.distance import Distance, Verdict
from insitu.trace.compare.relative import RelativeError
from insitu.trace.diff import Cause, Compared, Diff, Difference, ResultEffect
from insitu.view.headline import name_in_module

MOST_LINKS = 2  # of a chain, at either end

_WRONG: dict[Verdict, str] = {
    "a": "a is wrong",
    "b": "b is wrong",
    "both": "neither agrees with it",
    "neither": "both agree with it",
    "unknown": "which of them is wrong is not known",
}


def chain_text(diff: Diff, cause: Cause) -> str:
    """Through which calls a cause comes to the result; nothing if that is not known."""
    result = cause.result
    if result is None:
        return ""
    event = result.a if result.a is not None else result.b
    assert event is not None
    return _chain(diff, cause, event)


def effect_text(diff: Diff, cause: Cause) -> str:
    """How large the difference is that a cause makes in the result, and which part of it is due to the cause."""
    result = cause.result
    if result is None:
        return ""
    event = result.a if result.a is not None else result.b
    assert event is not None
    text = f"in the result, {name_in_module(event)}: {_error(result.relative)}"
    if len(diff.causes) > 1:
        text += f", {_share(result)}"
    return text


def _share(result: ResultEffect) -> str:
    """Which part of the difference in the result a cause explains."""
    if result.share is None:
        return "its share of that is not known"
    if result.share == 1:
        return "all of it from this cause"
    if result.share < 0.01:
        return "less than 1% of it from this cause"
    return f"about {result.share:.0%} of it from this cause"


def _error(relative: RelativeError | None) -> str:
    """A relative error in words."""
    if relative is None:
        return "relative error not known"
    if isinf(relative.size):
        return "NaN or Inf in one run only"
    return f"relative error {_size(relative)}"


def _size(relative: RelativeError) -> str:
    if relative.is_bound:
        return f"≥ {relative.size:.3g}"
    return f"{relative.size:.3g}"


def _chain(diff: Diff, cause: Cause, event: Compared) -> str:
    """The calls from a result back to the cause, those in the middle counted; nothing if they lead to another cause."""
    rows = diff.because(event)
    if len(rows) < 2 or rows[-1].cause is None:
        return ""
    if diff.causes[rows[-1].cause] is not cause:
        return ""
    names = [name_in_module(_present(row)) for row in rows]
    hidden = len(names) - 2 * MOST_LINKS
    if hidden > 1:
        names[MOST_LINKS:-MOST_LINKS] = [f"{hidden:,} more"]
    return "because of " + " ← ".join(names[1:])


def _present(row: Difference) -> Compared:
    return row.events[0]


def distance_text(distance: Distance, place: str) -> str:
    """How far both runs are from the reference at a place.

    >>> distance_text(Distance(RelativeError(3e-7), RelativeError(0.02), is_close_a=True), "here")
    'here a is 3e-07 from the reference, b 0.02: b is wrong'
    """
    a, b = away_text(distance.a), away_text(distance.b)
    return f"{place} a is {a} from the reference, b {b}: {_WRONG[distance.wrong]}"


def away_text(error: RelativeError | None) -> str:
    """How far a run is from a reference."""
    if error is None:
        return "an unknown distance"
    if error.size == 0:
        return "0"
    if isinf(error.size):
        return "NaN or Inf away"
    return _size(error)
