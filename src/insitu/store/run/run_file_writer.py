"""Writes the file of a run: all journals, a table of entries at a time, into the datasets of one HDF5 file.

`/about` is JSON in bytes: everything that is known of the run and its variables, with the checksum of every column. The
attributes have the most important facts, for a reader with plain h5py. `/steps` and `/events/marks` are tables of
columns. `/vars/<escaped path>` is a variable: `step rank call time` with a row for each time it was seen, `values`,
`digest` with the xxh3_128 of each stored value, and, only where they are needed, `attempt` (of each row, if the job was
restarted), `index` (the stored value of each row, if one was stored once and seen often), `offset` and `shape` (if
`values` is flat, because the shapes differ).

The rows of a variable are in the order of the steps, then of the ranks. A journal whose steps go backwards keeps the
order in which it was written, because an unchanged value must come after the stored one; a reader sorts the rows.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
from collections.abc import Iterator
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest, xxh3_128

from insitu.operating_system import free_bytes
from insitu.store.format_version import RUN_VERSION
from insitu.store.hdf5 import RUN_FORMAT, escaped, h5type_of, numpy_type, text_attribute, text_type
from insitu.store.journal.entry_table import (
    EntryTable,
    LastStored,
    StepFrame,
    equal_ranges,
    frame_batches,
    has_digests,
)
from insitu.store.journal.journal_writer import value_json
from insitu.store.journal.run_shards import RunShards
from insitu.store.journal.shard_facts import (
    attempts_of,
    ended_of,
    last_committed_of,
    missing_ranks_of,
    started_of,
    world_size_of,
)
from insitu.store.run.block_splitter import BlockSplitter, DamagedError
from insitu.store.run.file_builder import DatasetWriter, FileBuilder, build_file
from insitu.store.run.journal_survey import BATCH, JournalSurvey, OnProgress, VariablePlan, survey
from insitu.store.stored_type import Array
from insitu.trace.collector import pause_collector

Checksums = dict[str, int]

_PENDING = 2**26  # bytes of columns that wait to be written
_ATTRIBUTES = ("insitu", "torch", "python", "command", "git", "patterns", "settings")
_LONGEST_EVENT = 1000
_LONGEST_DESCRIPTION = 1000  # of a variable in /about, without its path and facts


def write_run_file(shards: RunShards, path: Path, *, compression: str, verify: bool, on_progress: OnProgress) -> None:
    """Write a new file from the journals; DamagedError if a value does not have its digest.

    With `verify` every value is checked first, and the damaged ones are left out.
    """
    found = survey(shards, verify=verify, on_progress=on_progress)
    payload = sum(plan.payload for plan in found.plans) + 64 * found.steps + _size_of_about(shards, found)
    check_room(path.parent, payload, shards.size)
    with build_file(path, payload, 9 * len(found.plans), compression) as builder, pause_collector():
        writer = RunFileWriter(shards, found, builder)
        total, done = max(1, sum(plan.values_size for plan in found.plans)), 0
        for frames in frame_batches(frames_in_order(shards), BATCH):
            on_progress("merging", done, total)
            table = EntryTable(frames, shards.numbering, shards.pool)
            if verify:
                table.verify()
            done += writer.add(table)
        writer.finish()
        on_progress("merging", done, total)


def check_room(folder: Path, payload: int, journals: int) -> None:
    """Raise before anything is written if the disk cannot hold the file beside the journals."""
    free = free_bytes(folder)
    if payload > free:
        raise OSError(
            errno.ENOSPC,
            f"{os.strerror(errno.ENOSPC)}: the file takes up to {bytes_text(payload)} beside the"
            f" {bytes_text(journals)} of its journals, and {bytes_text(free)} are free",
        )


def bytes_text(count: int) -> str:
    """A number of bytes for people.

    >>> bytes_text(12), bytes_text(3_456_789)
    ('12 B', '3.5 MB')
    """
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    if units[0] != "B":
        return f"{size:.1f} {units[0]}"
    return f"{count} B"


def frames_in_order(shards: RunShards) -> Iterator[StepFrame]:
    """The frames of all journals, in the order in which they are written to the file."""
    journals = [_with_order(shards, number) for number in range(len(shards.shards))]
    return map(itemgetter(1), heapq.merge(*journals, key=itemgetter(0)))


def _with_order(shards: RunShards, number: int) -> Iterator[tuple[tuple[int, int], StepFrame]]:
    highest = -(2**63)
    for frame in shards.step_frames(number):
        highest = max(highest, frame.step)
        yield (highest, number), frame


class ColumnWriter:
    """A small dataset that grows, with its checksum."""

    def __init__(
        self, builder: FileBuilder, group: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._dtype, self._sum = dtype, xxh3_64()
        self._writer = builder.dataset(group, name, shape, numpy_type(dtype), is_packed=False)

    def add(self, rows: Array) -> int:
        """Take the next rows, and return their bytes."""
        data = np.ascontiguousarray(rows, self._dtype).tobytes()
        self._sum.update(data)
        self._writer.add(data)
        return len(data)

    def flush(self) -> None:
        """Write the rows that wait."""
        self._writer.flush(is_last=True)

    @property
    def checksum(self) -> int:
        """The checksum of all rows so far."""
        return self._sum.intdigest()


class ColumnGroup:
    """The columns of one group of the file, each with a name, a shape and a type."""

    def __init__(self, builder: FileBuilder, group: Any, columns: list[tuple[str, tuple[int, ...], str]]) -> None:
        self.columns = {
            name: ColumnWriter(builder, group, name, shape, np.dtype(dtype)) for name, shape, dtype in columns
        }

    def add_rows(self, columns: dict[str, Array]) -> int:
        """Take the next rows of the columns that the group has, and return their bytes."""
        return sum(column.add(columns[name]) for name, column in self.columns.items() if name in columns)

    def flush(self) -> None:
        """Write the rows that wait."""
        for column in self.columns.values():
            column.flush()

    @property
    def checksums(self) -> Checksums:
        """The checksums of the columns."""
        return {name: column.checksum for name, column in self.columns.items()}


class StepTable(ColumnGroup):
    """`/steps`: the step, rank, attempt and time of every step of every rank."""

    def __init__(self, builder: FileBuilder, count: int) -> None:
        types = {"step": "<i8", "rank": "<i4", "attempt": "<i4", "time": "<f8"}
        super().__init__(builder, builder.group("steps", {}), [(name, (count,), of) for name, of in types.items()])


class VariableWriter(ColumnGroup):
    """`/vars/<path>`: one variable, with a row for each time it was seen and each value that is stored."""

    def __init__(self, plan: VariablePlan, builder: FileBuilder) -> None:
        self.plan = plan
        group = builder.group(f"vars/{escaped(plan.name)}", _attributes(plan))
        super().__init__(builder, group, _columns(plan))
        h5type = text_type(plan.text_width) if plan.form == "text" else h5type_of(plan.type)
        self.values: DatasetWriter = builder.dataset(group, "values", plan.values_shape(), h5type)
        self._end = 0
        if plan.form == "ragged":
            self.columns["offset"].add(np.zeros(1, np.int64))

    def add_stored(self, layouts: Array, digests: Array) -> int:
        """Take the digests and shapes of the next stored values, and return their bytes."""
        size = self.columns["digest"].add(np.frombuffer(digests.tobytes(), np.uint8).reshape(-1, 16))
        if self.plan.form != "ragged" or not len(layouts):
            return size
        numbers, which = np.unique(layouts, return_inverse=True)
        shapes = [self.plan.shapes[number] for number in numbers.tolist()]
        ends = self._end + np.cumsum(np.array([prod(shape) for shape in shapes], np.int64)[which])
        self._end = int(ends[-1])
        table = np.full((len(shapes), self.plan.dimensions), -1, np.int64)
        for row, shape in zip(table, shapes, strict=True):
            row[: len(shape)] = shape
        return size + self.columns["offset"].add(ends) + self.columns["shape"].add(table[which])

    def description(self) -> dict[str, Any]:
        """Everything that a reader must know of the variable, as JSON."""
        plan = self.plan
        return {
            "name": plan.name,
            "path": plan.path,
            "dtype": plan.type.name,
            "form": plan.form,
            "shape": list(plan.shape) if plan.form == "dense" else None,
            "rows": plan.rows,
            "stored": plan.stored,
            "width": plan.text_width or None,
            "dimensions": plan.dimensions,
            "columns": self.checksums,
            "facts": {name: value_json(fact) for name, fact in plan.facts.items()},
        }


def _attributes(plan: VariablePlan) -> dict[str, str]:
    attributes = {"name": plan.name, "torch_dtype": plan.type.name, "form": plan.form}
    source = plan.facts.get("source")
    if isinstance(source, str):
        return {**attributes, "source": source}
    return attributes


def _columns(plan: VariablePlan) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and type of the small datasets of a variable."""
    rows, stored = (plan.rows,), plan.stored
    columns = [("step", rows, "<i8"), ("rank", rows, "<i4"), ("call", rows, "<i4"), ("time", rows, "<f8")]
    optional = [
        (plan.has_attempts, ("attempt", rows, "<i4")),
        (plan.has_shared_values, ("index", rows, "<i8")),
        (True, ("digest", (stored, 16), "u1")),
        (plan.form == "ragged", ("offset", (stored + 1,), "<i8")),
        (plan.form == "ragged", ("shape", (stored, plan.dimensions), "<i8")),
    ]
    return [*columns, *(column for is_needed, column in optional if is_needed)]


class RunFileWriter:
    """Distributes tables of entries to the variables of the file, and writes what is known of the run at the end."""

    def __init__(self, shards: RunShards, found: JournalSurvey, builder: FileBuilder) -> None:
        count = len(shards.numbering.keys)
        self._shards, self._builder, self._step_count = shards, builder, found.steps
        self._variables = [VariableWriter(plan, builder) for plan in found.plans]
        self._steps = StepTable(builder, found.steps)
        self._ranks, self._attempts = shards.ranks, shards.attempts
        self._last, self._slots = LastStored(), np.zeros(count, np.int64)
        self._owners = np.full(max(1, count), -1, np.int64)  # the writer of each variable
        self._owners[[plan.number for plan in found.plans]] = np.arange(len(found.plans))
        values, widths = [each.values for each in self._variables], [plan.text_width for plan in found.plans]
        self._splitter = BlockSplitter(values, widths)
        self._waiting = 0

    def add(self, table: EntryTable) -> int:
        """Write the next entries, and return the bytes of their values."""
        table.resolve(self._last, self._slots)
        starts = np.flatnonzero(table.frames.starts_step)
        self._waiting += self._steps.add_rows(self._frame_columns(table, starts))
        self._add_rows(table)
        if self._waiting > _PENDING:
            self._flush_columns()
        return self._copy_values(table)

    def finish(self) -> None:
        """Write what waits, then the events and the description of the run."""
        self._flush_columns()
        self._splitter.flush()
        tables = {"steps": self._steps.checksums, "events/marks": _write_events(self._builder, self._shards)}
        _write_about(self._builder, self._shards, self._description(tables))

    def _flush_columns(self) -> None:
        self._steps.flush()
        for variable in self._variables:
            variable.flush()
        self._waiting = 0

    def _frame_columns(self, table: EntryTable, rows: Array) -> dict[str, Array]:
        """When and where these frames were written."""
        shard = table.frames.shard[rows]
        return {
            "step": table.frames.step[rows],
            "rank": self._ranks[shard],
            "attempt": self._attempts[shard],
            "time": table.frames.time[rows],
        }

    def _add_rows(self, table: EntryTable) -> None:
        owners = np.where(table.is_whole, self._owners[table.variable], -1)
        entries = np.flatnonzero(owners >= 0)
        entries = entries[np.argsort(owners[entries], kind="stable")]
        columns = self._frame_columns(table, table.frame[entries])
        columns |= {"call": table.call[entries], "index": table.slots[entries]}
        for number, here in equal_ranges(owners[entries]):
            variable = self._variables[number]
            stored = entries[here][table.is_stored[entries[here]]]
            self._waiting += variable.add_rows({name: column[here] for name, column in columns.items()})
            self._waiting += variable.add_stored(table.layout[stored], table.digest[stored])

    def _copy_values(self, table: EntryTable) -> int:
        stored = np.flatnonzero(table.is_whole & table.is_stored)
        owners = self._owners[table.variable[stored]]
        stored, owners = stored[owners >= 0], owners[owners >= 0]
        begin = 0
        for place in np.flatnonzero(table.is_large(stored)).tolist():
            self._copy_blocks(table, stored[begin:place], owners[begin:place])
            self._copy_large(table, int(stored[place]), int(owners[place]))
            begin = place + 1
        self._copy_blocks(table, stored[begin:], owners[begin:])
        return int(table.size[stored].sum())

    def _copy_blocks(self, table: EntryTable, stored: Array, owners: Array) -> None:
        digests = table.digest[stored]
        for first, last, block, bounds in table.blocks(stored):
            if not has_digests(block, bounds, digests[first:last]):
                raise DamagedError
            self._splitter.add(owners[first:last], block, bounds)

    def _copy_large(self, table: EntryTable, entry: int, owner: int) -> None:
        self._splitter.flush(is_last=False)
        digest = xxh3_128()
        for piece in table.pieces(entry):
            digest.update(piece)
            self._splitter.add_piece(owner, piece)
        if digest.digest() != table.digest[entry].tobytes():
            raise DamagedError

    def _description(self, tables: dict[str, Checksums]) -> dict[str, Any]:
        """Everything that is known of the run, as JSON."""
        shards = self._shards
        events = shards.events
        return {
            "about": value_json(shards.about),
            "abouts": {str(attempt): value_json(about) for attempt, about in shards.abouts.items()},
            "run": shards.run_id,
            "shards": [facts.to_json() for facts in shards.shard_facts(is_merged=True)],
            "excluded": shards.excluded,
            "steps": self._step_count,
            "events": [
                len(events),
                *(_texts([getattr(e, name) for e in events]).itemsize for name in ("kind", "text")),
            ],
            "tables": tables,
            "variables": [variable.description() for variable in self._variables],
        }


def _size_of_about(shards: RunShards, found: JournalSurvey) -> int:
    """The most bytes that /about and the events take."""
    size = len(value_json(list(shards.abouts.values()))) + sum(map(len, shards.missing(is_merged=True)))
    size += 2 * _LONGEST_EVENT * len(shards.events) + 512 * len(shards.shards)
    size += sum(_LONGEST_DESCRIPTION + 2 * len(plan.path) + len(str(plan.facts)) for plan in found.plans)
    return 2 * size


def _write_events(builder: FileBuilder, shards: RunShards) -> Checksums:
    """Write the events, and return the checksums of their columns."""
    events = shards.events
    columns: dict[str, Array] = {
        "step": np.array([-1 if event.step is None else event.step for event in events], np.int64),
        "rank": np.array([event.rank for event in events], np.int32),
        "attempt": np.array([event.attempt for event in events], np.int32),
        "time": np.array([event.time for event in events], np.float64),
        "kind": _texts([event.kind for event in events]),
        "text": _texts([event.text for event in events]),
    }
    group = builder.group("events/marks", {})
    for name, column in columns.items():
        h5type = text_type(column.itemsize) if column.dtype.kind == "S" else numpy_type(column.dtype)
        builder.column(group, name, column, h5type)
    return {name: xxh3_64_intdigest(column.tobytes()) for name, column in columns.items()}


def _texts(texts: list[str]) -> Array:
    short = [text.replace("\0", " ").encode("utf-8", "backslashreplace")[:_LONGEST_EVENT] for text in texts]
    return np.array(short, np.dtype(f"S{max(map(len, short), default=0) or 1}"))


def _width(texts: list[str]) -> int:
    return _texts(texts).itemsize


def _write_about(builder: FileBuilder, shards: RunShards, description: dict[str, Any]) -> None:
    text = np.frombuffer(json.dumps(description, separators=(",", ":")).encode("ascii"), np.uint8)
    builder.column(builder.file, "about", text, numpy_type(text.dtype))
    facts = shards.shard_facts(is_merged=True)
    last = last_committed_of(facts)
    attributes = builder.file.attrs
    attributes["format"] = text_attribute(RUN_FORMAT)
    attributes["format_version"] = RUN_VERSION
    attributes["checksum"] = np.uint64(xxh3_64_intdigest(text.tobytes()))
    attributes["run_id"] = text_attribute(shards.run_id)
    attributes["attempts"] = np.array([attempt.number for attempt in attempts_of(facts)], np.int64)
    attributes["world_size"] = world_size_of(facts)
    attributes["complete"] = not shards.missing(is_merged=True)
    attributes["missing_ranks"] = np.array(missing_ranks_of(facts), np.int64)
    attributes["ranks"] = np.array(list(last), np.int64)
    attributes["last_committed"] = np.array([-1 if step is None else step for step in last.values()], np.int64)
    attributes["dropped"] = sum(each.dropped for each in facts)
    attributes["start"], attributes["end"] = _time(started_of(facts)), _time(ended_of(facts))
    attributes.update({name: text_attribute(shards.about[name]) for name in _ATTRIBUTES if name in shards.about})


def _time(seconds: float | None) -> float:
    if seconds is None:
        return np.nan
    return seconds
