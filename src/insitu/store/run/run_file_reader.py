"""Reads the file of a run as if a stranger had sent it: each column is checked against its checksum, each value against
its digest, and nothing in it is executed."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from insitu.errors import StoreError
from insitu.store.format_version import RUN_VERSION
from insitu.store.hdf5 import (
    attribute,
    check_format_version,
    child,
    escaped,
    open_file,
    plain_dataset,
    read_rows,
    reading,
)
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.parts import RUN_ID
from insitu.store.journal.shard_facts import ShardFacts
from insitu.store.json_reader import plain_value
from insitu.store.run.bounded_cache import BoundedCache
from insitu.store.run.journal_survey import WIDEST_TEXT
from insitu.store.run.run_home import RunHome
from insitu.store.run.series import SeriesColumns
from insitu.store.stored_type import JSON, Array, StoredType, checked_shape, stored_type
from insitu.trace.run import RunEvent

_BLOCK = 2**24
_MOST_ABOUT = 2**28
_MOST_VARIABLES = 2**20
_MOST_COLUMNS = 2**26  # bytes of columns that are kept
_INT, _LONG, _TIME = np.dtype("<i4"), np.dtype("<i8"), np.dtype("<f8")
_TYPES: dict[str, np.dtype[Any]] = {
    "step": _LONG,
    "rank": _INT,
    "attempt": _INT,
    "call": _INT,
    "time": _TIME,
    "index": _LONG,
    "offset": _LONG,
    "shape": _LONG,
    "digest": np.dtype("u1"),
}


class RunFileReader:
    """The file of a run; values are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.origin = path, str(path)
        self.size = os.stat(path).st_size if path.is_file() else 0
        self.file = open_file(path)
        self.running = False
        self.columns = BoundedCache[SeriesColumns](_MOST_COLUMNS)
        self.digests = BoundedCache[Array](_MOST_COLUMNS)  # arrays of bytes
        try:
            with reading("it is damaged, or another program wrote it"):
                self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        check_format_version(self.file, "run", RUN_VERSION)
        description = json.loads(self._about_bytes())
        self.about = dict(plain_value(description["about"]))
        self.run_id = description["run"]
        if self.run_id and not RUN_ID.fullmatch(self.run_id):
            raise StoreError(f"{self.run_id!r:.80} is not the id of a run")
        self._abouts = description["abouts"]
        self.shards = [ShardFacts.from_json(facts) for facts in description["shards"]]
        if len({facts.key for facts in self.shards}) < len(self.shards):
            raise StoreError("it holds a rank twice")
        self.excluded = [str(text) for text in description["excluded"]]
        self.others: list[str] = []
        self.journals: list[Shard] = []
        self._tables = description["tables"]
        self._step_count, self._events_size = description["steps"], description["events"]
        count = len(description["variables"])
        if count > _MOST_VARIABLES:
            raise StoreError(f"it holds {count} variables, and at most {_MOST_VARIABLES} are read")
        self.variables = [FileVariable(self, each) for each in description["variables"]]

    def about_of(self, attempt: int) -> dict[str, Any]:
        """The facts about one attempt of the run."""
        return dict(plain_value(self._abouts[str(attempt)]))

    def _about_bytes(self) -> bytes:
        dataset = child(self.file, "about", h5py.Dataset)
        if dataset.ndim != 1 or dataset.size > _MOST_ABOUT:
            raise StoreError(f"/about is {dataset.shape}")
        text = self._rows(plain_dataset(self.file, "about", dataset.shape, 1, self.size), np.dtype("u1")).tobytes()
        if xxh3_64_intdigest(text) != attribute(self.file, "checksum"):
            raise StoreError("it is damaged: its checksum is not that of /about")
        return text

    @property
    def steps(self) -> tuple[Array, Array]:
        """The step and the rank of every step that was recorded."""
        return self.table_of_steps["step"], self.table_of_steps["rank"]

    @cached_property
    def table_of_steps(self) -> dict[str, Array]:
        """Step, rank, attempt and time of every step that was recorded."""
        with self.reading("/steps"):
            group, sums = child(self.file, "steps", h5py.Group), self._tables["steps"]
            shape = (self._step_count,)
            names = ("step", "rank", "attempt", "time")
            return {name: self.column(group, name, shape, _TYPES[name], sums[name]) for name in names}

    @cached_property
    def events(self) -> list[RunEvent]:
        """Marks, errors and ends of ranks."""
        with self.reading("/events"):
            return self._events()

    def _events(self) -> list[RunEvent]:
        count, kind_width, text_width = self._events_size
        sums = self._tables["events/marks"]
        group = child(child(self.file, "events", h5py.Group), "marks", h5py.Group)
        types = {**_TYPES, "kind": np.dtype(f"S{int(kind_width)}"), "text": np.dtype(f"S{int(text_width)}")}
        names = ("kind", "text", "step", "rank", "time", "attempt")
        columns = [self.column(group, name, (count,), types[name], sums[name]).tolist() for name in names]
        return [
            RunEvent(kind.decode(errors="replace"), text.decode(errors="replace"), None if step < 0 else step, *where)
            for kind, text, step, *where in zip(*columns, strict=True)
        ]

    def column(self, group: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], checksum: Any) -> Array:
        """A small dataset, read whole and checked."""
        column = self._rows(plain_dataset(group, name, shape, dtype.itemsize, self.size), dtype)
        if xxh3_64_intdigest(column.tobytes()) != checksum:
            raise StoreError(f"{str(self.path)!r} is damaged: {group.name}/{name} does not have its checksum")
        return column

    def _rows(self, dataset: h5py.Dataset, dtype: np.dtype[Any]) -> Array:
        out = np.empty(dataset.shape, dtype)
        read_rows(dataset, 0, len(out), out)
        return out

    def reading(self, where: str) -> Any:
        """A context in which errors of the HDF5 library become a StoreError that names the file."""
        if not self.file:
            raise StoreError(f"{str(self.path)!r} is closed: load it again")
        return reading(f"{str(self.path)!r} is damaged at {where}")

    def close(self) -> None:
        """Close the file; values that were read stay."""
        self.file.close()


class FileVariable:
    """A variable in the file of a run. A slot is the number of one of its stored values."""

    def __init__(self, run: RunFileReader, description: dict[str, Any]) -> None:
        self.home: RunHome | None = None
        self._run = run
        self.name, self.path = str(description["name"]), str(description["path"])
        self.type: StoredType = stored_type(description["dtype"])
        self.form: str = description["form"]
        self.shape = checked_shape(description["shape"], self.type) if self.form == "dense" else None
        counts = (int(description[name]) for name in ("rows", "stored", "dimensions"))
        self.rows, self._stored, self._dimensions = counts
        if not 0 <= 24 * self.rows <= run.size or not 0 <= 16 * self._stored <= run.size:
            raise StoreError(f"{self.name!r} declares {self.rows} rows in a file of {run.size} bytes")
        self._width = description["width"]
        self._checksums: dict[str, Any] = description["columns"]
        self.facts = {name: plain_value(fact) for name, fact in description["facts"].items()}
        self._check_form()

    def _check_form(self) -> None:
        if self.form in ("dense", "ragged"):
            return
        is_text = self.form == "text" and self.type.name == JSON and type(self._width) is int
        if not (is_text and 0 < self._width <= WIDEST_TEXT):
            raise StoreError(f"{self.name!r} is stored in an unknown form: {self.form!r:.40}")

    def columns(self) -> SeriesColumns:
        """When and where the variable was seen."""
        return self._run.columns.get(self.name, self._read_columns)

    @cached_property
    def _group(self) -> Any:
        with self._reading():
            return child(child(self._run.file, "vars", h5py.Group), escaped(self.name), h5py.Group)

    def _read_columns(self) -> SeriesColumns:
        shape = (self.rows,)
        steps, ranks, calls, times = (self._column(name, shape) for name in ("step", "rank", "call", "time"))
        has_attempts = "attempt" in self._checksums
        attempts = self._column("attempt", shape) if has_attempts else np.zeros(self.rows, np.int32)
        return SeriesColumns(steps, ranks, attempts, calls, times, self._index()).in_order()

    def _index(self) -> Array:
        """The slot of each row."""
        if "index" not in self._checksums:
            if self.rows != self._stored:
                raise StoreError(f"{self.name!r} has {self.rows} rows and {self._stored} values")
            return np.arange(self.rows)
        index = self._column("index", (self.rows,))
        if self.rows and not 0 <= index.min() <= index.max() < self._stored:
            raise StoreError(f"{self.name!r} refers to values that are not there")
        return index

    @property
    def _digests(self) -> Array:
        """The digests of all stored values, 16 bytes each."""
        return self._run.digests.get(self.name, lambda: self._column("digest", (self._stored, 16)).reshape(-1))

    @cached_property
    def _offsets(self) -> Sequence[int]:
        """Where each stored value begins in `values`, in bytes, and where the last one ends."""
        if self.form != "ragged":
            size = self._width if self.form == "text" else self.type.itemsize * prod(self.shape or ())
            if size:
                return range(0, (self._stored + 1) * size, size)
            return [0] * (self._stored + 1)
        offset = self._column("offset", (self._stored + 1,))
        if offset[0] != 0 or (np.diff(offset) < 0).any() or offset[-1] > self._run.size * 2**15:
            raise StoreError(f"{self.name!r} has values that begin before others end")
        return [number * self.type.itemsize for number in offset.tolist()]

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        """The shape of each stored value; it must fit the bytes that are stored."""
        found = self._column("shape", (self._stored, self._dimensions)).tolist()
        shapes = [tuple(size for size in sizes if size >= 0) for sizes in found]
        sizes = [end - begin for begin, end in pairwise(self._offsets)]
        if sizes != [self.type.itemsize * prod(shape) for shape in shapes]:
            raise StoreError(f"{str(self._run.path)!r} is damaged: {self.name!r} has values of another shape")
        return shapes

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        if self.shape is not None:
            return [self.shape] * len(slots)
        return [self._shapes[slot] for slot in slots.tolist()]

    def digests(self, slots: Array) -> Array:
        """The digests of stored values."""
        return self._digests.view("V16")[slots]

    def sizes(self, slots: Array) -> Array:
        """The bytes of stored values, with the padding of texts."""
        return np.diff(np.array(self._offsets, np.int64))[slots]

    @cached_property
    def _values(self) -> Any:
        inner, total = self.type.inner, self._offsets[-1] // max(self.type.itemsize, 1)
        is_ragged = self.form == "ragged"
        shape = (total, *inner) if is_ragged else (self._stored, *(self.shape or ()), *inner)
        itemsize = self._width if self.form == "text" else self.type.bits.itemsize
        with self._reading():
            return plain_dataset(self._group, "values", shape, itemsize, self._run.size)

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values, checked; values that are next to each other are read at once."""
        for first, last in self._neighbours(slots):
            found = self._texts(first, last + 1) if self.form == "text" else self._blocks(first, last + 1)
            self._check(found, first)
            yield from found

    def _texts(self, start: int, stop: int) -> list[bytes]:
        """Consecutive texts, without the padding."""
        texts: list[bytes] = np.frombuffer(self._bytes(start, stop), f"S{self._width}").tolist()
        return texts

    def _blocks(self, start: int, stop: int) -> list[memoryview]:
        """The bytes of consecutive values."""
        block, begin = memoryview(self._bytes(start, stop)), self._offsets[start]
        return [block[first - begin : last - begin] for first, last in pairwise(self._offsets[start : stop + 1])]

    def _check(self, pieces: Sequence[Any], start: int) -> None:
        """Raise if a value does not have its digest."""
        digests = self._digests[16 * start : 16 * (start + len(pieces))]
        if b"".join(map(xxh3_128_digest, pieces)) != digests.tobytes():
            raise StoreError(f"{str(self._run.path)!r} is damaged: a value of {self.name!r} has changed")

    def _neighbours(self, slots: Array) -> Iterator[tuple[int, int]]:
        """The first and the last slot of each range of consecutive slots of limited size."""
        if not len(slots):
            return
        breaks = np.flatnonzero(np.diff(slots) != 1) + 1
        for stretch in np.split(slots, breaks):
            first, end = int(stretch[0]), int(stretch[-1]) + 1
            while first < end:
                last = self._last_in_block(first, end)
                yield first, last
                first = last + 1

    def _last_in_block(self, first: int, end: int) -> int:
        """The last slot that is read together with the first one; a value that is too large is read alone."""
        beyond = bisect_right(self._offsets, self._offsets[first] + _BLOCK, first, end + 1)
        return max(first, min(beyond - 2, end - 1))

    def _bytes(self, start: int, stop: int) -> Any:
        """The bytes of consecutive stored values."""
        begin, end = self._offsets[start], self._offsets[stop]
        out = np.empty(end - begin, np.uint8)
        if self.form == "ragged":
            start, stop = begin // self.type.itemsize, end // self.type.itemsize
        with self._reading():
            read_rows(self._values, start, stop, out)
        return out.data

    def _column(self, name: str, shape: tuple[int, ...]) -> Array:
        with self._reading():
            return self._run.column(self._group, name, shape, _TYPES[name], self._checksums.get(name))

    def _reading(self) -> Any:
        return self._run.reading(repr(self.name))
