"""Recorded calls whose result is NaN for every value that their input can have: known by the shape alone."""

from __future__ import annotations

import math
from collections.abc import Iterator

from insitu.trace.event import TensorFacts
from insitu.trace.explain.explanation import Origin, OriginKind
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.messages import NOT_FINITE

DEVIATIONS = frozenset(("std", "var", "std_mean", "var_mean"))
MEANS = frozenset(("mean", "nanmean", "median", "nanmedian"))
MOST_PLACES = 2


def nan_origins(failure: Failure) -> Iterator[Origin]:
    """The first places where a call produced NaN, whatever the values were."""
    if not NOT_FINITE.search(failure.message):
        return
    history, places = failure.history, set[tuple[str, int]]()
    for at in history.before(failure.end):
        origin = _origin(history, at)
        place = (origin.site.file, origin.site.line) if origin is not None and origin.site is not None else None
        if origin is not None and place is not None and place not in places:
            places.add(place)
            yield origin
        if len(places) == MOST_PLACES:
            return


def _origin(history: FailureHistory, at: int) -> Origin | None:
    known = history.operation(at)
    if known.base not in DEVIATIONS and known.base not in MEANS and known.family != "loss":
        return None
    tensor = next(iter(history.inputs(at)), None)
    facts = history.plain(tensor) if tensor is not None else None
    if facts is None or not all(isinstance(size, int) for size in facts.shape):
        return None
    few = _too_few(history, at, facts)
    if not few:
        return None
    return Origin(OriginKind.NAN_PRODUCED, history.site(at), size=few, tensors=(facts,))


def _too_few(history: FailureHistory, at: int, facts: TensorFacts) -> str:
    """How many elements there are, if a mean or a deviation of so few is NaN."""
    is_deviation = history.operation(at).base in DEVIATIONS
    options = history.kwargs(at)
    if not set(options) <= {"unbiased", "correction", "keepdim", "reduction"} or len(history.args(at)) > 1 + (
        history.operation(at).family == "loss"
    ):
        return ""  # along a dimension, or with other weights
    count = math.prod(int(size) for size in facts.shape)
    if count == 0 and options.get("reduction", "mean") == "mean":
        return "no element"
    is_corrected = options.get("unbiased", True) is True and options.get("correction", 1) == 1
    if count == 1 and is_deviation and is_corrected:
        return "one element"
    return ""
