"""The ranges of what calls returned: one for each output, and over all calls that a row stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from insitu.trace.event import Call, Stats, TensorFacts
from insitu.view.line import Span
from insitu.view.value import spread

MOST_RANGES = 4  # that are shown one by one
BETWEEN = " | "
UNKNOWN = "?"

Outputs = Sequence[TensorFacts]


def values_cell(every: Sequence[Outputs]) -> Span | None:
    """The ranges of the outputs of one call or of several like it, red where there is NaN; None if none is known.

    >>> logits = TensorFacts(0, (4, 8), "f32", "cpu", stats=Stats(32, -0.381, 0.679, 0.0, 1.0, 0, 0, 0))
    >>> loss = TensorFacts(1, (), "f32", "cpu", stats=Stats(1, 3.28, 3.28, 3.28, 0.0, 0, 0, 0))
    >>> values_cell([(logits, loss)])
    ('-0.381 … 0.679 | 3.28', '')
    """
    if len(every) == 1 and len(every[0]) == 1:  # as most often
        facts = every[0][0]
        return None if facts.stats is None else _cell(spread(facts.stats, facts.dtype), facts.stats.nan)
    outputs = [_united(facts) for facts in zip_longest(*every)]
    known = [stats for stats, _ in outputs if stats is not None]
    if not known:
        return None
    return _cell(_listed(outputs), sum(stats.nan for stats in known))


def outputs_cell(calls: Iterable[Call]) -> Span | None:
    """The same of calls."""
    return values_cell([call.outputs for call in calls])


def union(every: Sequence[Stats]) -> Stats | None:
    """The statistics of several tensors taken as one; mean, deviation and histogram are left out."""
    if len(every) < 2:
        return every[0] if every else None
    low = [stats.min for stats in every if stats.min is not None]
    high = [stats.max for stats in every if stats.max is not None]
    count, nan, inf, zeros = (sum(getattr(stats, name) for stats in every) for name in ("count", "nan", "inf", "zeros"))
    return Stats(count, min(low, default=None), max(high, default=None), None, None, nan, inf, zeros)


def _united(facts: Iterable[TensorFacts | None]) -> tuple[Stats | None, str]:
    """The statistics of an output over all calls, and its dtype."""
    known = [each for each in facts if each is not None]
    stats = union([each.stats for each in known if each.stats is not None])
    dtypes = {each.dtype for each in known}
    return stats, dtypes.pop() if len(dtypes) == 1 else ""


def _listed(outputs: list[tuple[Stats | None, str]]) -> str:
    """A range for each output; of many the first ones, and what is not finite in the others."""
    if len(outputs) <= MOST_RANGES:
        return BETWEEN.join(map(_text, outputs))
    shown, rest = outputs[: MOST_RANGES - 1], outputs[MOST_RANGES - 1 :]
    more = f"… {len(rest):,} more"
    odd = union([stats for stats, _ in rest if stats is not None and (stats.nan or stats.inf)])
    if odd is not None:
        more += ", " + spread(Stats(odd.count, None, None, None, None, odd.nan, odd.inf, odd.zeros))
    return BETWEEN.join([*map(_text, shown), more])


def _text(output: tuple[Stats | None, str]) -> str:
    stats, dtype = output
    if stats is None:
        return UNKNOWN
    return spread(stats, dtype) if stats.count else "empty"


def _cell(text: str, nan: int) -> Span:
    return (text, "red" if nan else "")
