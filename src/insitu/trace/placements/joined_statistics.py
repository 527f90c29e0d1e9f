"""The statistics that a run records in place of a tensor (`keep="stats"`), joined over the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from insitu.trace.event import STATISTICS, Stats
from insitu.trace.placements.joined_value import JoinedValue
from insitu.trace.placements.part import LocalPart, ValueKey
from insitu.trace.placements.statistics_of_parts import combined_stats

_NAMES = tuple(row.name for row in STATISTICS)


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsJoiner:
    """Joins `path.mean`, `path.max` and the other statistics of one tensor together."""

    parts: Mapping[ValueKey, Sequence[LocalPart]]
    wholes: Mapping[ValueKey, Any]
    _tensors: dict[ValueKey, Stats | None] = field(default_factory=dict)

    def joined(self, key: ValueKey) -> JoinedValue | None:
        """The statistic of the whole tensor; None if the value is not one, or the parts do not make it up."""
        base, _, name = key.path.rpartition(".")
        if name not in _NAMES or len(self.parts[key]) == 1:
            return None
        found = self._statistics(key._replace(path=base))
        if found is None:
            return None
        return JoinedValue(getattr(found, name), tuple(self.parts[key]), "statistics")

    def _statistics(self, tensor: ValueKey) -> Stats | None:
        """The statistics of the whole tensor, computed once."""
        if tensor not in self._tensors:
            self._tensors[tensor] = self._combined(tensor)
        return self._tensors[tensor]

    def _combined(self, tensor: ValueKey) -> Stats | None:
        keys = [tensor._replace(path=f"{tensor.path}.{name}") for name in _NAMES]
        count = self.wholes.get(keys[0])
        if not isinstance(count, int) or not self.parts.keys() >= set(keys):
            return None
        rows = zip(*map(self._column, keys), strict=False)
        return combined_stats([Stats(**dict(zip(_NAMES, row, strict=True))) for row in rows], count)

    def _column(self, key: ValueKey) -> list[Any]:
        """One statistic on each rank."""
        return [part.value for part in self.parts[key]]
