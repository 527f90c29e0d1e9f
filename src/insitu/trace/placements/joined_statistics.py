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
        tensor = key._replace(path=base)
        if tensor not in self._tensors:
            self._tensors[tensor] = self._combined(tensor)
        found = self._tensors[tensor]
        if found is None:
            return None
        return JoinedValue(getattr(found, name), tuple(self.parts[key]), "statistics")

    def _combined(self, tensor: ValueKey) -> Stats | None:
        """The statistics of the whole tensor."""
        count = self.wholes.get(tensor._replace(path=f"{tensor.path}.count"))
        columns = {name: self._column(tensor, name) for name in _NAMES}
        ranks = {len(column) for column in columns.values()}
        if len(ranks) != 1 or not isinstance(count, int):
            return None
        rows = zip(*columns.values(), strict=True)
        return combined_stats([Stats(**dict(zip(columns, row, strict=True))) for row in rows], count)

    def _column(self, tensor: ValueKey, name: str) -> list[Any]:
        """One statistic on each rank."""
        return [part.value for part in self.parts.get(tensor._replace(path=f"{tensor.path}.{name}"), ())]
