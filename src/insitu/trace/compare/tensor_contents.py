"""Which tensors of a run hold the same numbers as a tensor of the other run, in whatever order and shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from insitu.trace.compare.closeness import Tolerance
from insitu.trace.compare.moves import Moves
from insitu.trace.event import Call, Stats, TensorFacts
from insitu.trace.kept_values import has_all_values, is_array, real_numbers

MOST_TENSORS = 4000  # of one run
FEWEST_ELEMENTS = 4  # of a tensor that is recognized by its numbers


class Summary(NamedTuple):
    """A few numbers that do not depend on the order of the elements."""

    size: int
    low: float
    high: float
    mean: float

    @property
    def is_telling(self) -> bool:
        """Whether a tensor can be recognized by these numbers: it has several elements that are not all the same."""
        return self.size >= FEWEST_ELEMENTS and self.low < self.high and math.isfinite(self.mean)

    @property
    def is_constant(self) -> bool:
        """Whether all elements are known to be the same number."""
        return self.size > 0 and self.low == self.high

    def is_close(self, other: Summary, rtol: float, atol: float) -> bool:
        """Whether two tensors can hold the same numbers; means move less than single elements do."""
        if self.size != other.size:
            return False
        bound = atol + rtol * max(abs(self.low), abs(self.high))
        extremes = max(abs(self.low - other.low), abs(self.high - other.high))
        return extremes <= bound and abs(self.mean - other.mean) <= bound / 10


NOTHING_KNOWN = Summary(0, 0.0, 0.0, 0.0)


class TensorContents:
    """The tensors that calls of one run take and make."""

    def __init__(self, run: Moves, tolerance: Tolerance) -> None:
        self._run = run
        self._tolerance = tolerance
        self._summaries: dict[int, Summary] = {}

    def have(self, facts: TensorFacts) -> bool:
        """Whether a tensor of this run holds the numbers of a tensor of the other run; any run can have a constant."""
        return self.summary(facts).is_constant or next(self._alike(facts), None) is not None

    def makers(self, facts: TensorFacts) -> Iterator[Call]:
        """The calls whose output holds the numbers of a tensor, in the order of the run."""
        for _, call in self._alike(facts):
            if call is not None:
                yield call

    def _alike(self, facts: TensorFacts) -> Iterator[tuple[TensorFacts, Call | None]]:
        own = self.summary(facts)
        if not own.is_telling:
            return
        for other, call in self._by_size.get(own.size, ()):
            if own.is_close(self.summary(other), *self._tolerance.of(facts.dtype, other.dtype)):
                yield other, call

    def summary(self, facts: TensorFacts) -> Summary:
        """The summary of a tensor, computed once."""
        found = self._summaries.get(id(facts))
        if found is None:
            found = self._summaries[id(facts)] = _summary(facts)
        return found

    @cached_property
    def _by_size(self) -> dict[int, list[tuple[TensorFacts, Call | None]]]:
        """The tensors by the number of their elements; those that a call makes have that call."""
        found: dict[int, list[tuple[TensorFacts, Call | None]]] = {}
        for facts, call in _tensors(self._run.calls.values()):
            found.setdefault(_element_count(facts), []).append((facts, call))
        return found


def _tensors(calls: Iterable[Call]) -> Iterator[tuple[TensorFacts, Call | None]]:
    """The tensors that calls take and make, each once, those that are made with their call."""
    seen: set[int] = set()
    for call in calls:
        found = [(facts, None) for facts in call.inputs if facts.producer is None]
        for facts, maker in [*found, *[(facts, call) for facts in call.outputs]]:
            if facts.id not in seen:
                seen.add(facts.id)
                yield facts, maker
        if len(seen) > MOST_TENSORS:
            return


def _element_count(facts: TensorFacts) -> int:
    return math.prod(size for size in facts.shape if isinstance(size, int))


def _summary(facts: TensorFacts) -> Summary:
    if facts.stats is not None:
        return _summary_of_statistics(facts.stats)
    if not is_array(facts.kept) or not has_all_values(facts):
        return NOTHING_KNOWN
    numbers = real_numbers(facts.kept)
    if numbers is None or not numbers.size:
        return NOTHING_KNOWN
    return Summary(numbers.size, float(numbers.min()), float(numbers.max()), float(numbers.mean(dtype="f8")))


def _summary_of_statistics(stats: Stats) -> Summary:
    if stats.min is None or stats.max is None or stats.mean is None:
        return NOTHING_KNOWN
    return Summary(stats.count, stats.min, stats.max, stats.mean)
