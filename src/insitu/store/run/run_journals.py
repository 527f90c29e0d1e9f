"""A run that is not merged: its journals, read where they are as if they were a file, on this machine or at an address.

Heads and indexes are read first. The values stay where they are until they are asked for. Small journals are checked
whole when they are opened; of larger ones, each value is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

from insitu.errors import StoreError
from insitu.store.journal.entry_table import EntryTable, LastStored, frame_batches
from insitu.store.journal.journal_reader import Shard, read_shard
from insitu.store.journal.journaled_runs import JournaledRun, newest_run, other_runs
from insitu.store.journal.run_shards import RunShards, unique_names
from insitu.store.run.bounded_cache import BoundedCache
from insitu.store.run.journal_survey import BATCH, NONE
from insitu.store.run.run_home import RunHome
from insitu.store.run.segment_table import SegmentTable, StoredRows, VariableRows
from insitu.store.run.series import SeriesColumns
from insitu.store.stored_type import JSON, Array, stored_type

MOST_CHECKED = 2**28  # bytes of journals that are read whole when they are opened
MOST_KEPT = 2**28  # bytes of tables that are kept in memory; the others are read again when they are asked for
_BLOCK = 2**24  # bytes that are read at once


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Files of one journal that can be read without the others. `shard` is the position of the journal among all."""

    shard: int
    files: range


@dataclass(slots=True)
class _VariableCount:
    """What is known of a variable without its rows."""

    rows: int
    layouts: set[int]
    is_always_none: bool
    stretches: list[int]


class ShardIndex(RunShards):
    """All entries of all journals, by variable."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        is_local = all(file.address is None for shard in self.shards for file in shard.files)
        self.does_check = is_local and self.size <= MOST_CHECKED
        self._stretches = [
            _Stretch(number, files) for number, shard in enumerate(self.shards) for files in shard.stretches
        ]
        self._tables = BoundedCache[SegmentTable](MOST_KEPT)
        self.rows = BoundedCache[JournalRows](MOST_KEPT // 4)
        self._counts: dict[int, _VariableCount] = {}
        self._lost: set[int] = set()  # the stretches whose lost values were reported
        self._frame_steps: dict[int, Array] = {}
        for number in range(len(self._stretches)):
            self._count(number)
        self.step = np.concatenate([np.empty(0, np.int64), *self._frame_steps.values()])
        owners = [np.full(len(steps), self._stretches[at].shard) for at, steps in self._frame_steps.items()]
        self.rank = self.ranks[np.concatenate([np.empty(0, np.int64), *owners])]

    def _table(self, number: int) -> SegmentTable:
        """The entries of a stretch."""
        return self._tables.get(number, lambda: SegmentTable(self._entry_tables(number)))

    def _entry_tables(self, number: int) -> Iterator[EntryTable]:
        stretch = self._stretches[number]
        last, slots = LastStored(), np.zeros(len(self.numbering.keys), np.int64)
        steps = []
        for frames in frame_batches(self.step_frames(stretch.shard, stretch.files), BATCH):
            table = EntryTable(frames, self.numbering, self.pool)
            if self.does_check and number not in self._lost:
                table.verify()
            table.resolve(last, slots)
            if number not in self._lost:
                self.report_lost(table.lost_by_frame())
            steps.append(table.frames.step)
            yield table
        self._lost.add(number)
        self._frame_steps[number] = np.concatenate([np.empty(0, np.int64), *steps])

    def _count(self, number: int) -> None:
        """Count the rows of each variable in a stretch."""
        table = self._table(number)
        for variable in table.numbers:
            rows = table.get(variable)
            if rows is None:
                continue
            count = self._counts.setdefault(variable, _VariableCount(0, set(), True, []))
            count.rows += len(rows.seen.step)
            count.layouts.update(np.unique(rows.stored.layout).tolist())
            count.is_always_none &= bool((rows.stored.digest == NONE).all())
            count.stretches.append(number)

    @cached_property
    def variables(self) -> list[JournalVariable]:
        """The variables that have a value, each with a name of its own."""
        keys = self.numbering.keys
        tensor_paths = {keys[number][0] for number in self._counts if keys[number][1] != JSON}
        numbers = [number for number in sorted(self._counts) if not self._is_unbound(number, tensor_paths)]
        names = unique_names([keys[number] for number in numbers])
        return [self._variable(name, number) for name, number in zip(names, numbers, strict=True)]

    def _is_unbound(self, number: int, tensor_paths: set[str]) -> bool:
        """Whether a variable is always None, at a path that also has tensors: its name is not bound yet."""
        path, dtype = self.numbering.keys[number]
        return dtype == JSON and path in tensor_paths and self._counts[number].is_always_none

    def _variable(self, name: str, number: int) -> JournalVariable:
        count = self._counts[number]
        shapes = {self.numbering.shapes[layout] for layout in count.layouts}
        return JournalVariable(self, name, number, rows=count.rows, shapes=shapes)

    def parts(self, number: int) -> list[tuple[int, VariableRows]]:
        """The rows of a variable in each stretch, with the position of the journal."""
        found = []
        for stretch in self._counts[number].stretches:
            rows = self._table(stretch).get(number)
            if rows is not None:
                found.append((self._stretches[stretch].shard, rows))
        return found


@dataclass(frozen=True, slots=True)
class JournalRows:
    """When and where a variable was seen, and where its stored values are."""

    columns: SeriesColumns
    stored: StoredRows

    @property
    def size(self) -> int:
        """The bytes of memory that the columns take."""
        return self.columns.size + self.stored.size


class JournalVariable:
    """A variable in journals. A slot is the number of one of its stored values."""

    def __init__(self, index: ShardIndex, name: str, number: int, *, rows: int, shapes: set[tuple[int, ...]]) -> None:
        self.home: RunHome | None = None
        self._index, self._number = index, number
        self.name, self.rows = name, rows
        self.path, dtype = index.numbering.keys[number]
        self.type = stored_type(dtype)
        self.facts: dict[str, Any] = index.facts(self.path)
        self.shape = next(iter(shapes)) if len(shapes) == 1 and dtype != JSON else None

    def columns(self) -> SeriesColumns:
        """When and where the variable was seen."""
        return self._rows.columns

    @property
    def _rows(self) -> JournalRows:
        return self._index.rows.get(self._number, self._read_rows)

    def _read_rows(self) -> JournalRows:
        """Join the rows of all stretches; the slots of the stretches follow each other."""
        parts = self._index.parts(self._number)
        owners = np.repeat([shard for shard, _ in parts], [len(rows.seen.step) for _, rows in parts])
        begins = np.cumsum([0, *(len(rows.stored.begin) for _, rows in parts)])[:-1].tolist()
        slots = [rows.seen.slot.astype(np.int64) + begin for (_, rows), begin in zip(parts, begins, strict=True)]
        columns = SeriesColumns(
            steps=np.concatenate([rows.seen.step for _, rows in parts]),
            ranks=self._index.ranks[owners],
            attempts=self._index.attempts[owners],
            calls=np.concatenate([rows.seen.call for _, rows in parts]),
            times=np.concatenate([rows.seen.time for _, rows in parts]),
            index=np.concatenate(slots),
        )
        return JournalRows(columns.in_order(), StoredRows.joined([rows.stored for _, rows in parts]))

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        if self.shape is not None:
            return [self.shape] * len(slots)
        shapes = self._index.numbering.shapes
        return [shapes[layout] for layout in self._rows.stored.layout[slots].tolist()]

    def digests(self, slots: Array) -> Array:
        """The digests of stored values."""
        found: Array = self._rows.stored.digest[slots]
        return found

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values, which are checked; values that are next to each other are read at once."""
        stored = self._rows.stored
        files, begins, digests = stored.file[slots], stored.begin[slots], stored.digest[slots]
        sizes = self._index.numbering.counts[stored.layout[slots]] * self.type.itemsize
        for first, last in _blocks(files, begins, sizes):
            begin, end = int(begins[first]), int(begins[last - 1] + sizes[last - 1])
            block = memoryview(self._index.pool.read(int(files[first]), begin, end - begin))
            offsets = (begins[first:last] - begin).tolist()
            lengths, expected = sizes[first:last].tolist(), digests[first:last].tolist()
            for offset, length, digest in zip(offsets, lengths, expected, strict=True):
                piece = block[offset : offset + length]
                if xxh3_128_digest(piece) != digest:
                    raise self._damage(int(files[first]), begin + offset)
                yield piece

    def _damage(self, file: int, begin: int) -> StoreError:
        """The error for a value that is damaged, or was changed after it was checked."""
        if self._index.does_check:
            return StoreError(f"a value of {self.name!r} was changed while it was read")
        where = f"at byte {begin} of {str(self._index.pool.path(file))!r}"
        return StoreError(f"a value of {self.name!r} is damaged, {where}: `insitu recover` leaves it out")


def _blocks(files: Array, begins: Array, sizes: Array) -> Iterator[tuple[int, int]]:
    """Ranges of values that follow each other in one file, of limited size."""
    if not len(files):
        return
    ends = begins + sizes
    is_apart = np.ones(len(files), bool)
    is_apart[1:] = (files[1:] != files[:-1]) | (begins[1:] != ends[:-1])
    part = (begins - np.maximum.accumulate(np.where(is_apart, begins, 0))) // _BLOCK
    is_apart[1:] |= part[1:] != part[:-1]
    yield from pairwise([*np.flatnonzero(is_apart).tolist(), len(files)])


class RunJournals:
    """The journals of a run as they are at this moment."""

    def __init__(
        self, path: Path, run_id: str, shards: Sequence[Shard], *, others: Sequence[str] = (), origin: str = ""
    ) -> None:
        self.path, self.origin = path, origin or str(path)
        index = self._index = ShardIndex(shards)
        self.run_id, self.about, self.running = run_id, index.about, index.is_running
        self.shards, self.excluded = index.shard_facts(), index.excluded
        self.others = list(others)
        self.steps = index.step, index.rank
        self.events = index.events
        self.variables = index.variables
        self.journals = index.shards

    @classmethod
    def in_folder(cls, parts: Path, run: JournaledRun | None = None) -> RunJournals:
        """The journals in `run.h5.parts`, of the run that began last, or of another one."""
        found = run or newest_run(parts)
        others = [str(other) for other in other_runs(parts, [found.id])]
        return cls(parts, found.id, [read_shard(place) for place in found.places], others=others)

    def close(self) -> None:
        """Close the files."""
        self._index.pool.close()
