"""A run that has no file yet, because it still runs or was killed: its journals, read as if they were a file.

One row for each entry of each step is held in memory. A merge does without: it reads the journals table by table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

from insitu.errors import StoreError
from insitu.store.journal.entry_table import EntryTable, LastStored, equal_ranges
from insitu.store.journal.journal_reader import Shard, read_shard
from insitu.store.journal.journaled_runs import JournaledRun, newest_run, other_runs
from insitu.store.journal.run_shards import RunShards, unique_names
from insitu.store.run.journal_survey import NONE
from insitu.store.run.series import SeriesColumns
from insitu.store.stored_type import JSON, Array, stored_type


class ShardIndex(RunShards):
    """All entries of all journals. Every value is read and checked, so that damaged ones are known at once."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        steps = [frame for number in range(len(self.shards)) for frame in self.step_frames(number)]
        self.table = EntryTable(steps, self.numbering, self.pool)
        self.table.verify()
        self.table.resolve(LastStored(), np.zeros(len(self.numbering.keys), np.int64))
        self.step = self.table.frames.step
        self.rank = self.ranks[self.table.frames.shard]
        self.attempt = self.attempts[self.table.frames.shard]
        self.report_lost(self.table.lost_by_frame())

    @cached_property
    def variables(self) -> list[JournalVariable]:
        """The variables that have a value, each with a name of its own."""
        entries = np.flatnonzero(self.table.is_whole)
        frame, variable = self.table.frame[entries], self.table.variable[entries]
        order = np.lexsort((entries, self.attempt[frame], self.rank[frame], self.step[frame], variable))
        entries = entries[order]
        groups = {number: entries[here] for number, here in equal_ranges(variable[order])}
        for number in self._unbound(groups):
            del groups[number]
        names = unique_names([self.numbering.keys[number] for number in groups])
        return [JournalVariable(self, name, number, groups[number]) for name, number in zip(names, groups, strict=True)]

    def _unbound(self, groups: dict[int, Array]) -> list[int]:
        """The variables that are always None, at paths that also have tensors: their names are not bound yet."""
        keys = {number: self.numbering.keys[number] for number in groups}
        tensor_paths = {path for path, dtype in keys.values() if dtype != JSON}
        candidates = [number for number, (path, dtype) in keys.items() if dtype == JSON and path in tensor_paths]
        return [number for number in candidates if (self.table.digest[groups[number]] == NONE).all()]


class JournalVariable:
    """A variable in journals. A slot is the number of one of its stored values."""

    def __init__(self, index: ShardIndex, name: str, number: int, entries: Array) -> None:
        """`entries` are the rows of the variable in the table, in the order of steps, ranks and attempts."""
        table = index.table
        self._index, self._stored = index, entries[table.is_stored[entries]]
        self.name = name
        self.path, dtype = index.numbering.keys[number]
        self.type = stored_type(dtype)
        self.rows = len(entries)
        self.facts: dict[str, Any] = index.facts(self.path)
        shapes = set(self.shapes(np.arange(len(self._stored))))
        self.shape = shapes.pop() if len(shapes) == 1 and dtype != JSON else None
        frame, order = table.frame[entries], np.argsort(self._stored)
        slots = order[np.searchsorted(self._stored, table.source[entries], sorter=order)]
        self._columns = SeriesColumns(
            steps=index.step[frame],
            ranks=index.rank[frame],
            attempts=index.attempt[frame],
            calls=table.call[entries],
            times=table.frames.time[frame],
            index=slots,
        )

    def columns(self) -> SeriesColumns:
        """When and where the variable was seen."""
        return self._columns

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        layouts = self._index.table.layout[self._stored[slots]].tolist()
        return [self._index.numbering.shapes[layout] for layout in layouts]

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values, which are checked."""
        table, entries = self._index.table, self._stored[slots]
        for data, digest in zip(table.data(entries), table.digest[entries].tolist(), strict=True):
            if xxh3_128_digest(data) != digest:  # it was whole when the journals were opened
                raise StoreError(f"a value of {self.name!r} was changed while it was read")
            yield data


class RunJournals:
    """The journals of a run as they are at this moment; every value has been checked."""

    def __init__(self, parts: Path, run: JournaledRun | None = None) -> None:
        self.path = parts
        found = run or newest_run(parts)
        index = self._index = ShardIndex([read_shard(place) for place in found.places])
        self.run_id, self.about, self.running = found.id, index.about, index.is_running
        self.shards, self.excluded = index.shard_facts(), index.excluded
        self.others = [str(other) for other in other_runs(parts, [found.id])]
        self.steps = index.step, index.rank
        self.events = index.events
        self.variables = index.variables
        self.journals = index.shards

    def close(self) -> None:
        """Close the files."""
        self._index.pool.close()
