"""The ranges of what calls returned: one for each output, and over all calls that a row stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    return _cell(_ranges(outputs), sum(stats.nan for stats in known))


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


def listed(texts: Sequence[str], last: str = "") -> str:
    """A text for each output; of many the first ones, and `last` after how many more there are.

    >>> listed(["1", "2"]), listed(list("abcdef"), ", ✗ 3 NaN")
    ('1 | 2', 'a | b | c | … 3 more, ✗ 3 NaN')
    """
    if len(texts) <= MOST_RANGES:
        return BETWEEN.join(texts)
    shown = texts[: MOST_RANGES - 1]
    return BETWEEN.join([*shown, f"… {len(texts) - len(shown):,} more{last}"])


def _ranges(outputs: list[tuple[Stats | None, str]]) -> str:
    """A range for each output, and what is not finite in those that are left out."""
    rest = [stats for stats, _ in outputs[MOST_RANGES - 1 :] if stats is not None and (stats.nan or stats.inf)]
    odd = union(rest)
    last = f", {spread(replace(odd, min=None, max=None))}" if odd is not None else ""
    return listed(list(map(_text, outputs)), last)


def _text(output: tuple[Stats | None, str]) -> str:
    stats, dtype = output
    if stats is None:
        return UNKNOWN
    return spread(stats, dtype) if stats.count else "empty"


def _cell(text: str, nan: int) -> Span:
    return (text, "red" if nan else "")
