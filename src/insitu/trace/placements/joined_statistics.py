"""Statistics of a whole tensor from the statistics of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from insitu.trace.event import STATISTICS
from insitu.trace.placements.joined_value import JoinedValue
from insitu.trace.placements.part import LocalPart, ValueKey

_NAMES = frozenset(row.name for row in STATISTICS)
_COUNTS = frozenset(row.name for row in STATISTICS if row.kind == "count")
_EXTREMES: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max}


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsJoiner:
    """Joins `path.mean` and the other statistics that `keep="stats"` records in place of a tensor.

    Each element is counted once, or equally often: then the extremes and averages over all parts are those of the
    whole tensor. How often follows from the counts of the parts and of the whole tensor.
    """

    parts: Mapping[ValueKey, Sequence[LocalPart]]
    wholes: Mapping[ValueKey, Any]

    def joined(self, key: ValueKey) -> JoinedValue | None:
        """The statistic of the whole tensor; None if the value is not one, or the counts do not fit."""
        base, _, name = key.path.rpartition(".")
        if name not in _NAMES:
            return None
        counts = self._numbers(key, base, "count")
        times = self._times(key, base, counts)
        values = [part.value for part in self.parts[key]]
        is_known = len(counts) == len(values) and all(isinstance(value, (int, float)) for value in values)
        if not times or not is_known or len(values) == 1:
            return None
        value = self._combined(key, base, name, values, counts, times)
        if value is None:
            return None
        return JoinedValue(value, tuple(self.parts[key]), "statistics")

    def _combined(
        self, key: ValueKey, base: str, name: str, values: list[float], counts: list[float], times: int
    ) -> Any:
        if name in _COUNTS:
            return int(sum(values)) // times
        if name in _EXTREMES:
            return _EXTREMES[name](values)
        mean = _weighted(values, counts)
        if name == "mean":
            return mean
        means = self._numbers(key, base, "mean")
        if name != "std" or len(means) != len(values):
            return None
        centre = _weighted(means, counts)
        spreads = [std**2 + (own - centre) ** 2 for std, own in zip(values, means, strict=True)]
        return sqrt(_weighted(spreads, counts))

    def _numbers(self, key: ValueKey, base: str, name: str) -> list[float]:
        """Another statistic of the same tensor, on each rank."""
        parts = self.parts.get(key._replace(path=f"{base}.{name}"), ())
        return [part.value for part in parts if isinstance(part.value, (int, float))]

    def _times(self, key: ValueKey, base: str, counts: list[float]) -> int:
        """How many ranks hold each element; 0 if the counts do not fit."""
        whole = self.wholes.get(key._replace(path=f"{base}.count"))
        if not isinstance(whole, int) or whole <= 0 or sum(counts) % whole:
            return 0
        return int(sum(counts)) // whole


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    total = sum(weights)
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total
