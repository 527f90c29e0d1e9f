"""The journals of all ranks as one: which variables there are, and where the bytes of each of their values are.

All of it is held in memory, as columns with one row for each entry of each step: this is for reading a run that is not
closed. The file of a run is made without it, stretch by stretch (`fill.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

from insitu.store.journal.entry_table import EntryTable, LastStored
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.run_shards import RunShards, unique_names
from insitu.store.stored_type import JSON, Array, StoredType, stored_type

NONE = np.void(xxh3_128_digest(b"null"))  # None, as the journal has it


@dataclass(frozen=True, slots=True)
class Found:
    """One variable: a row for each time it was seen. `entries[index[row]]` is where the value of a row is stored."""

    name: str
    path: str
    kind: StoredType
    steps: Array
    ranks: Array
    attempts: Array
    calls: Array
    times: Array
    index: Array
    entries: Array
    layouts: Array
    digests: Array

    def __len__(self) -> int:
        return len(self.steps)


class ShardIndex(RunShards):
    """All committed steps of all ranks. Every value is read and checked, so that damaged ones are known at once."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        steps = [step for number in range(len(self.shards)) for step in self.step_frames(number)]
        self.stretch = EntryTable(steps, self.numbering, self.files)
        self.stretch.verify()
        self.stretch.resolve(LastStored(), np.zeros(len(self.keys), np.int64))
        ranks = np.array([shard.rank for shard in self.shards], np.int32)
        attempts = np.array([shard.attempt for shard in self.shards], np.int32)
        self.rank, self.attempt = ranks[self.stretch.shard], attempts[self.stretch.shard]
        self.step = self.stretch.step
        self._tell_lost()

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Path and dtype of each variable."""
        return self.numbering.keys

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each layout."""
        return self.numbering.shapes

    def data(self, entries: Array) -> Iterator[Any]:
        """The bytes of each of these entries."""
        return self.stretch.data(entries)

    def _tell_lost(self) -> None:
        lost = np.flatnonzero(self.stretch.is_lost)
        for frame, count in zip(*np.unique(self.stretch.frame[lost], return_counts=True), strict=True):
            self.report_lost(self.stretch.steps[frame], int(count))

    @cached_property
    def variables(self) -> list[Found]:
        """The variables that have a value, each with a name of its own."""
        rows = np.flatnonzero(self.stretch.whole)
        frame = self.stretch.frame[rows]
        rows = rows[np.lexsort((rows, self.attempt[frame], self.rank[frame], self.step[frame]))]
        rows = rows[np.argsort(self.stretch.variable[rows], kind="stable")]
        numbers, begins = np.unique(self.stretch.variable[rows], return_index=True)
        groups = dict(zip(numbers.tolist(), np.split(rows, begins[1:]), strict=True)) if len(rows) else {}
        for number in self._unbound(groups):
            del groups[number]
        names = unique_names([self.keys[number] for number in groups])
        return [self._found(name, number, groups[number]) for name, number in zip(names, groups, strict=True)]

    def _unbound(self, groups: dict[int, Array]) -> list[int]:
        """The variables that never are anything but None, of paths with tensors: a name that waits to be bound."""
        bound = {path for path, dtype in (self.keys[number] for number in groups) if dtype != JSON}
        waiting = [number for number in groups if self.keys[number][1] == JSON and self.keys[number][0] in bound]
        return [number for number in waiting if (self.stretch.digest[groups[number]] == NONE).all()]

    def _found(self, name: str, number: int, rows: Array) -> Found:
        path, dtype = self.keys[number]
        of = self.stretch
        frame, entries = of.frame[rows], rows[of.stored[rows]]
        places = np.argsort(entries)
        index = places[np.searchsorted(entries, of.source[rows], sorter=places)]
        columns = (of.step[frame], self.rank[frame], self.attempt[frame], of.call[rows], of.time[frame], index)
        return Found(name, path, stored_type(dtype), *columns, entries, of.layout[entries], of.digest[entries])
