"""The steps of all journals on their way into the datasets of one file, a stretch of steps at a time.

The rows of a variable are in the order of the steps, then of the ranks. A journal whose steps go backwards keeps the
order in which it was written, for a repeat must come after the value that it repeats; a reader sorts the rows by step.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np
from xxhash import xxh3_64, xxh3_128

from insitu.store.hdf5 import escaped, h5type_of, numpy_type, text_type
from insitu.store.journal.entry_table import EntryTable, LastStored, StepFrame, holds, runs, stretches
from insitu.store.journal.run_shards import RunShards
from insitu.store.run.block_splitter import BlockSplitter, DamagedError
from insitu.store.run.file_builder import DatasetWriter, FileBuilder
from insitu.store.run.journal_survey import STRETCH, JournalSurvey, OnProgress
from insitu.store.run.variable_plan import VariablePlan
from insitu.store.stored_type import Array

Checksums = dict[str, int]

_PENDING = 2**26  # bytes of columns that wait to be written


def fill(
    survey: JournalSurvey, plans: list[VariablePlan], made: FileBuilder, on_progress: OnProgress
) -> tuple[list[Checksums], Checksums]:
    """Copy everything; the checksums of the columns of each variable, and of the table of steps."""
    shards = survey.shards
    writers = [VariableWriter(plan, made) for plan in plans]
    steps = StepTable(made, survey.steps)
    filling = _Filling(shards, writers, steps)
    total, done = max(1, sum(plan.size for plan in plans)), 0
    for frames in stretches(in_order(shards), STRETCH):
        on_progress("merging", done, total)
        stretch = EntryTable(frames, shards.numbering, shards.files)
        if survey.verify:
            stretch.verify()
        done += filling.add(stretch)
    filling.finish()
    on_progress("merging", done, total)
    return [writer.checksums for writer in writers], steps.checksums


def in_order(shards: RunShards) -> Iterator[StepFrame]:
    """The steps of all journals, in the order in which they are written to the file."""
    journals = [_with_order(shards, number) for number in range(len(shards.shards))]
    return map(itemgetter(1), heapq.merge(*journals, key=itemgetter(0)))


def _with_order(shards: RunShards, number: int) -> Iterator[tuple[tuple[int, int], StepFrame]]:
    highest = -(2**63)
    for frame in shards.step_frames(number):
        highest = max(highest, frame.step)
        yield (highest, number), frame


class ColumnWriter:
    """A small dataset that grows, with its checksum."""

    def __init__(self, made: FileBuilder, group: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._dtype, self._sum = dtype, xxh3_64()
        self._sink = made.dataset(group, name, shape, numpy_type(dtype), packed=False)

    def add(self, rows: Array) -> int:
        """The next rows; how many bytes they take."""
        data = np.ascontiguousarray(rows, self._dtype).tobytes()
        self._sum.update(data)
        self._sink.add(data)
        return len(data)

    def flush(self) -> None:
        """Write what waits."""
        self._sink.flush(last=True)

    @property
    def checksum(self) -> int:
        """The checksum of all rows so far."""
        return self._sum.intdigest()


class ColumnGroup:
    """The columns of one group of the file."""

    def __init__(self, made: FileBuilder, group: Any, columns: list[tuple[str, tuple[int, ...], str]]) -> None:
        self.columns = {name: ColumnWriter(made, group, name, shape, np.dtype(of)) for name, shape, of in columns}

    def add_rows(self, columns: dict[str, Array]) -> int:
        """The next rows of those columns that the group has; how many bytes they take."""
        return sum(column.add(columns[name]) for name, column in self.columns.items() if name in columns)

    def flush(self) -> None:
        """Write what waits."""
        for column in self.columns.values():
            column.flush()

    @property
    def checksums(self) -> Checksums:
        """The checksums of the columns."""
        return {name: column.checksum for name, column in self.columns.items()}


class StepTable(ColumnGroup):
    """`/steps`: the step, rank, attempt and time of every step of every rank."""

    def __init__(self, made: FileBuilder, count: int) -> None:
        types = {"step": "<i8", "rank": "<i4", "attempt": "<i4", "time": "<f8"}
        super().__init__(made, made.group("steps", {}), [(name, (count,), of) for name, of in types.items()])


class VariableWriter(ColumnGroup):
    """`/vars/<path>`: one variable, with a row for each time it was seen and each value that is stored."""

    def __init__(self, plan: VariablePlan, made: FileBuilder) -> None:
        self.plan = plan
        group = made.group(f"vars/{escaped(plan.variable.name)}", _attributes(plan))
        super().__init__(made, group, _columns(plan))
        kind = text_type(plan.text_width) if plan.form == "text" else h5type_of(plan.variable.kind)
        self.values: DatasetWriter = made.dataset(group, "values", plan.values_shape(), kind)
        self._end = 0
        if plan.form == "ragged":
            self.columns["offset"].add(np.zeros(1, np.int64))

    def add_stored(self, layouts: Array, digests: Array) -> int:
        """The digests and shapes of the next stored values; how many bytes they take."""
        size = self.columns["digest"].add(np.frombuffer(digests.tobytes(), np.uint8).reshape(-1, 16))
        if self.plan.form != "ragged" or not len(layouts):
            return size
        numbers, which = np.unique(layouts, return_inverse=True)
        shapes = [self.plan.shapes[number] for number in numbers.tolist()]
        ends = self._end + np.cumsum(np.array([prod(shape) for shape in shapes], np.int64)[which])
        self._end = int(ends[-1])
        missing = [(-1,) * (self.plan.dimensions - len(shape)) for shape in shapes]
        filled = [shape + rest for shape, rest in zip(shapes, missing, strict=True)]
        table = np.array(filled, np.int64).reshape(len(filled), self.plan.dimensions)
        return size + self.columns["offset"].add(ends) + self.columns["shape"].add(table[which])


def _attributes(plan: VariablePlan) -> dict[str, str]:
    attributes = {"name": plan.variable.name, "torch_dtype": plan.variable.kind.name, "layout": plan.form}
    if isinstance(source := plan.facts.get("source"), str):
        attributes["source"] = source
    return attributes


def _columns(plan: VariablePlan) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and type of the small datasets of a variable."""
    rows, stored = plan.variable.rows, plan.variable.stored
    columns: list[tuple[str, tuple[int, ...], str]] = [
        ("step", (rows,), "<i8"),
        ("rank", (rows,), "<i4"),
        ("call", (rows,), "<i4"),
        ("time", (rows,), "<f8"),
    ]
    if plan.variable.has_attempts:
        columns.append(("attempt", (rows,), "<i4"))
    if plan.has_repeats:
        columns.append(("index", (rows,), "<i8"))
    columns.append(("digest", (stored, 16), "u1"))
    if plan.form == "ragged":
        columns += [("offset", (stored + 1,), "<i8"), ("shape", (stored, plan.dimensions), "<i8")]
    return columns


class _Filling:
    """Takes stretches of steps apart, variable by variable."""

    def __init__(self, shards: RunShards, writers: list[VariableWriter], steps: StepTable) -> None:
        count = len(shards.numbering.keys)
        self._writers, self._steps = writers, steps
        self._ranks = np.array([shard.rank for shard in shards.shards], np.int32)
        self._attempts = np.array([shard.attempt for shard in shards.shards], np.int32)
        self._last, self._slots = LastStored(), np.zeros(count, np.int64)
        self._owners = np.full(max(1, count), -1, np.int64)  # the writer of each variable
        for number, writer in enumerate(writers):
            self._owners[writer.plan.variable.number] = number
        self._copying = BlockSplitter(
            [writer.values for writer in writers], [writer.plan.text_width for writer in writers]
        )
        self._waiting = 0

    def add(self, stretch: EntryTable) -> int:
        """The next steps; how many bytes their values take."""
        stretch.resolve(self._last, self._slots)
        self._waiting += self._steps.add_rows(self._columns_of(stretch, np.flatnonzero(stretch.is_first)))
        self._add_columns(stretch)
        if self._waiting > _PENDING:
            self._flush_columns()
        return self._copy_values(stretch)

    def finish(self) -> None:
        """Write what waits."""
        self._flush_columns()
        self._copying.finish()

    def _flush_columns(self) -> None:
        self._steps.flush()
        for writer in self._writers:
            writer.flush()
        self._waiting = 0

    def _columns_of(self, stretch: EntryTable, frame: Array) -> dict[str, Array]:
        """When and where each of these frames was written."""
        shard = stretch.shard[frame]
        return {
            "step": stretch.step[frame],
            "rank": self._ranks[shard],
            "attempt": self._attempts[shard],
            "time": stretch.time[frame],
        }

    def _add_columns(self, stretch: EntryTable) -> None:
        owners = np.where(stretch.whole, self._owners[stretch.variable], -1)
        rows = np.flatnonzero(owners >= 0)
        rows = rows[np.argsort(owners[rows], kind="stable")]
        columns = self._columns_of(stretch, stretch.frame[rows])
        columns |= {"call": stretch.call[rows], "index": stretch.slots[rows]}
        for number, here in runs(owners[rows]):
            writer = self._writers[number]
            stored = rows[here][stretch.stored[rows[here]]]
            self._waiting += writer.add_rows({name: column[here] for name, column in columns.items()})
            self._waiting += writer.add_stored(stretch.layout[stored], stretch.digest[stored])

    def _copy_values(self, stretch: EntryTable) -> int:
        stored = np.flatnonzero(stretch.whole & stretch.stored)
        owners = self._owners[stretch.variable[stored]]
        stored, owners = stored[owners >= 0], owners[owners >= 0]
        large = np.flatnonzero(stretch.is_large(stored))
        begin = 0
        for place in large.tolist():
            self._copy_blocks(stretch, stored[begin:place], owners[begin:place])
            self._copy_large(stretch, int(stored[place]), int(owners[place]))
            begin = place + 1
        self._copy_blocks(stretch, stored[begin:], owners[begin:])
        return int(stretch.size[stored].sum())

    def _copy_blocks(self, stretch: EntryTable, stored: Array, owners: Array) -> None:
        digests = stretch.digest[stored]
        for first, last, block, cuts in stretch.blocks(stored):
            if not holds(block, cuts, digests[first:last]):
                raise DamagedError
            self._copying.add(owners[first:last], block, cuts)

    def _copy_large(self, stretch: EntryTable, entry: int, owner: int) -> None:
        self._copying.finish(last=False)
        digest = xxh3_128()
        for piece in stretch.pieces(entry):
            digest.update(piece)
            self._copying.add_part(owner, piece)
        if digest.digest() != stretch.digest[entry].tobytes():
            raise DamagedError
