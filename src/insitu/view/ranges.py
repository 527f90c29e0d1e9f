"""The ranges of the outputs of a call, or of several calls that are alike, in one cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from insitu.trace.event import COUNTS, Stats, TensorFacts
from insitu.view.line import Span
from insitu.view.number import spread

MOST_RANGES = 4  # that are shown one by one
BETWEEN = " | "
UNKNOWN = "?"
NONE_FINITE = "–"

Outputs = Sequence[TensorFacts]
# How the statistics of a tensor of some dtype are written: `spread`, or one of its kind.
Form = Callable[[Stats, str], str]


@dataclass(slots=True, frozen=True)
class OutputRange:
    """The statistics of one output over all calls, None if there are none, and its dtype if all have the same."""

    stats: Stats | None
    dtype: str

    def text(self, form: Form) -> str:
        """The range in some form."""
        if self.stats is None:
            return UNKNOWN
        if self.stats.count:
            return form(self.stats, self.dtype) or NONE_FINITE
        return "empty"


def values_cell(every: Sequence[Outputs], form: Form = spread) -> Span | None:
    """The ranges of the outputs of one call or of several like it, red where there is a ✗; None if none is known.

    >>> logits = TensorFacts(0, (4, 8), "f32", "cpu", stats=Stats(count=32, min=-0.381, max=0.679, mean=0.0, std=1.0))
    >>> loss = TensorFacts(1, (), "f32", "cpu", stats=Stats(count=1, min=3.28, max=3.28, mean=3.28, std=0.0))
    >>> values_cell([(logits, loss)])
    ('-0.381 … 0.679 | 3.28', '')
    """
    is_single = len(every) == 1 and len(every[0]) == 1  # as most often
    if is_single:
        return _single_cell(every[0][0], form)
    ranges = [_range(facts) for facts in zip_longest(*every)]
    known = _known(ranges)
    if not known:
        return None
    text = join_outputs([output.text(form) for output in ranges], _rest_text(ranges, form))
    return _cell(text, _total("nan", known), form)


def _single_cell(facts: TensorFacts, form: Form) -> Span | None:
    stats = facts.stats
    if stats is None:
        return None
    return _cell(form(stats, facts.dtype), stats.nan, form)


def _known(ranges: Iterable[OutputRange]) -> list[Stats]:
    """The statistics of those outputs that have any."""
    return [output.stats for output in ranges if output.stats is not None]


def union(every: Sequence[Stats]) -> Stats | None:
    """The statistics of several tensors as one: counts are added; of the numbers, min and max are known."""
    if not every:
        return None
    if len(every) == 1:
        return every[0]
    low = [stats.min for stats in every if stats.min is not None]
    high = [stats.max for stats in every if stats.max is not None]
    counts: dict[str, Any] = {row.name: _total(row.name, every) for row in COUNTS}
    return Stats(min=min(low, default=None), max=max(high, default=None), **counts)


def _total(count: str, every: Sequence[Stats]) -> int:
    """The sum of one of the counts."""
    return sum(map(attrgetter(count), every))


def known_stats(every: Iterable[TensorFacts]) -> list[Stats]:
    """The statistics of those tensors that have any."""
    return [facts.stats for facts in every if facts.stats is not None]


def _range(outputs: Iterable[TensorFacts | None]) -> OutputRange:
    """One output over all calls; a call may lack it."""
    known = [facts for facts in outputs if facts is not None]
    stats = union(known_stats(known))
    first, *others = {facts.dtype for facts in known}
    if others:
        return OutputRange(stats, "")
    return OutputRange(stats, first)


def join_outputs(texts: Sequence[str], last: str = "") -> str:
    """A text for each output; of many the first ones, and `last` after how many more there are.

    >>> join_outputs(["1", "2"]), join_outputs(list("abcdef"), ", ✗ 3 NaN")
    ('1 | 2', 'a | b | c | … 3 more, ✗ 3 NaN')
    """
    if len(texts) <= MOST_RANGES:
        return BETWEEN.join(texts)
    shown = texts[: MOST_RANGES - 1]
    return BETWEEN.join([*shown, f"… {len(texts) - len(shown):,} more{last}"])


def _rest_text(ranges: list[OutputRange], form: Form) -> str:
    """How much is not finite in the outputs that are not shown one by one."""
    rest = union(_known(ranges[MOST_RANGES - 1 :]))
    if rest is None:
        return ""
    odd = form(replace(rest, min=None, max=None), "")
    if odd:
        return f", {odd}"
    return ""


def _cell(text: str, nan: int, form: Form) -> Span:
    if nan and form is spread:
        return (text, "red")
    return (text, "")
