"""Recorded calls whose result is NaN for every value that their input can have: known by the shape alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice

from insitu.trace.event import TensorFacts
from insitu.trace.explain.checks.extents import values_are_nan
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory

# The least number of elements for which a result need not be NaN.
LEAST = {
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), 2),
    **dict.fromkeys(("mean", "nanmean"), 1),
}
MOST_PLACES = 2


def nan_origins(failure: Failure, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    """The first places where a call produced NaN, whatever the values were; nothing if no NaN was seen."""
    if not any(misfit.check == values_are_nan.__name__ for misfit in misfits):
        return
    history = failure.history
    found = (_origin(history, at) for at in history.before(failure.end))
    yield from islice(_each_place_once(filter(None, found)), MOST_PLACES)


def _each_place_once(origins: Iterable[Origin]) -> Iterator[Origin]:
    sites = set[ExpressionSite | None]()
    for origin in origins:
        if origin.site not in sites:
            sites.add(origin.site)
            yield origin


def _origin(history: FailureHistory, at: int) -> Origin | None:
    least = LEAST.get(history.operation(at).base)
    if least is None or not _is_over_all(history, at):
        return None
    facts = history.plain(next(iter(history.inputs(at)), None))
    if not isinstance(facts, TensorFacts):
        return None
    count = math.prod(size for size in facts.shape if isinstance(size, int))
    if count >= least:
        return None
    return Origin(OriginKind.NAN_PRODUCED, history.site(at), count=count, tensors=(facts,))


def _is_over_all(history: FailureHistory, at: int) -> bool:
    """Whether a call has no argument but a tensor: a dimension or a correction changes what is known."""
    return len(history.args(at)) == 1 and not history.kwargs(at)
