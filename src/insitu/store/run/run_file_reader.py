"""The file of a run, read as if a stranger had sent it: each column is checked against its checksum, each value against
its digest, and nothing in it is run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from insitu.errors import StoreError
from insitu.store.hdf5 import RUN_VERSION, attribute, careful, child, escaped, open_file, plain, read_rows
from insitu.store.journal.journal_reader import checked_shape
from insitu.store.journal.parts import RUN_ID
from insitu.store.journal.shard_facts import ShardFacts
from insitu.store.json_reader import plain_value
from insitu.store.run.series import Columns
from insitu.store.run.variable_plan import WIDEST_TEXT
from insitu.store.stored_type import JSON, Array, StoredType, stored_type
from insitu.trace.run import RunEvent

_BLOCK = 2**24
_MOST_ABOUT = 2**28
_MOST_VARIABLES = 2**20
_INT, _LONG, _TIME = np.dtype("<i4"), np.dtype("<i8"), np.dtype("<f8")
_TYPES: dict[str, np.dtype[Any]] = {
    **{"step": _LONG, "rank": _INT, "attempt": _INT, "call": _INT, "time": _TIME},
    **{"index": _LONG, "offset": _LONG, "shape": _LONG},
}


class RunFileReader:
    """What the file of a run holds; the values are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = os.stat(path).st_size if path.is_file() else 0
        self.file = open_file(path)
        self.running = False
        try:
            with careful("it is damaged, or made by another program"):
                self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        version = attribute(self.file, "format_version")
        if not isinstance(version, np.integer) or not 1 <= version <= RUN_VERSION:
            raise StoreError(
                f"it has format version {version}, and this insitu reads 1 to {RUN_VERSION}: update insitu"
            )
        said = json.loads(self._about())
        self.about = dict(plain_value(said["about"]))
        self.run_id = said["run"]
        if self.run_id and not RUN_ID.fullmatch(self.run_id):
            raise StoreError(f"{self.run_id!r:.80} is not the id of a run")
        self._abouts = said["abouts"]
        self.shards = [ShardFacts.from_json(facts) for facts in said["shards"]]
        if len({facts.key for facts in self.shards}) < len(self.shards):
            raise StoreError("it holds a rank twice")
        self.left_out = [str(text) for text in said["left_out"]]
        self.others: list[str] = []
        self._tables, self._counts = said["tables"], (said["steps"], said["events"])
        if len(said["variables"]) > _MOST_VARIABLES:
            raise StoreError(f"it holds {len(said['variables'])} variables, and at most {_MOST_VARIABLES} are read")
        self.variables = [FileVariable(self, described) for described in said["variables"]]

    def about_of(self, attempt: int) -> dict[str, Any]:
        """The facts about one attempt of the run."""
        return dict(plain_value(self._abouts[str(attempt)]))

    def _about(self) -> bytes:
        dataset = child(self.file, "about", h5py.Dataset)
        if dataset.ndim != 1 or dataset.size > _MOST_ABOUT:
            raise StoreError(f"/about is {dataset.shape}")
        text = self.rows(plain(self.file, "about", dataset.shape, 1, self.size), np.dtype("u1")).tobytes()
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
            (count, _), sums = self._counts, self._tables["steps"]
            group = child(self.file, "steps", h5py.Group)
            names = ("step", "rank", "attempt", "time")
            return {name: self.column(group, name, (count,), _TYPES[name], sums[name]) for name in names}

    @cached_property
    def events(self) -> list[RunEvent]:
        """What happened besides."""
        with self.reading("/events"):
            return self._events()

    def _events(self) -> list[RunEvent]:
        (_, (count, *widths)), sums = self._counts, self._tables["events/marks"]
        group = child(child(self.file, "events", h5py.Group), "marks", h5py.Group)
        types = {**_TYPES, **{n: np.dtype(f"S{int(w)}") for n, w in zip(("kind", "text"), widths, strict=True)}}
        names = ("kind", "text", "step", "rank", "time", "attempt")
        columns = [self.column(group, name, (count,), types[name], sums[name]).tolist() for name in names]
        return [
            RunEvent(kind.decode(errors="replace"), text.decode(errors="replace"), None if step < 0 else step, *rest)
            for kind, text, step, *rest in zip(*columns, strict=True)
        ]

    def column(self, group: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], checksum: Any) -> Array:
        """A small dataset, whole and checked."""
        column = self.rows(plain(group, name, shape, dtype.itemsize, self.size), dtype)
        if xxh3_64_intdigest(column.tobytes()) != checksum:
            raise StoreError(f"{str(self.path)!r} is damaged: {group.name}/{name} is not what its checksum says")
        return column

    def rows(self, dataset: h5py.Dataset, dtype: np.dtype[Any]) -> Array:
        """All of a dataset."""
        out = np.empty(dataset.shape, dtype)
        read_rows(dataset, 0, len(out), out)
        return out

    def reading(self, where: str) -> Any:
        """Within this, what the library raises of a file is an error that names it."""
        if not self.file:
            raise StoreError(f"{str(self.path)!r} is closed: load it again")
        return careful(f"{str(self.path)!r} is damaged at {where}")

    def close(self) -> None:
        """Close the file; what was read stays."""
        self.file.close()


class FileVariable:
    """A variable in the file of a run."""

    def __init__(self, run: RunFileReader, said: dict[str, Any]) -> None:
        self._run = run
        self.name, self.path = str(said["name"]), str(said["path"])
        self.kind: StoredType = stored_type(said["dtype"])
        self.form: str = said["form"]
        self.shape = checked_shape(said["shape"], self.kind) if self.form == "dense" else None
        self.rows, self._stored, self._dimensions = (int(said[name]) for name in ("rows", "stored", "dimensions"))
        if not 0 <= 24 * self.rows <= run.size or not 0 <= 16 * self._stored <= run.size:
            raise StoreError(f"{self.name!r} declares {self.rows} rows in a file of {run.size} bytes")
        self._width = said["width"]
        self._sums: dict[str, Any] = said["columns"]
        self.facts = {name: plain_value(fact) for name, fact in said["facts"].items()}
        text = self.form == "text" and self.kind.name == JSON and type(self._width) is int
        if not (text and 0 < self._width <= WIDEST_TEXT) and self.form not in ("dense", "ragged"):
            raise StoreError(f"{self.name!r} is stored in a way that is not known: {self.form!r:.40}")

    def columns(self) -> Columns:
        """When and where it was seen."""
        return self._columns

    @cached_property
    def _group(self) -> Any:
        with self._reading():
            return child(child(self._run.file, "vars", h5py.Group), escaped(self.name), h5py.Group)

    @cached_property
    def _columns(self) -> Columns:
        steps, ranks, calls, times = (self._column(name, (self.rows,)) for name in ("step", "rank", "call", "time"))
        has_attempts = "attempt" in self._sums
        attempts = self._column("attempt", (self.rows,)) if has_attempts else np.zeros(self.rows, np.int32)
        if "index" not in self._sums:
            index = np.arange(self.rows)
            if self.rows != self._stored:
                raise StoreError(f"{self.name!r} has {self.rows} rows and {self._stored} values")
        else:
            index = self._column("index", (self.rows,))
            if self.rows and not 0 <= index.min() <= index.max() < self._stored:
                raise StoreError(f"{self.name!r} refers to values that are not there")
        return Columns(steps, ranks, attempts, calls, times, index).in_order()

    @cached_property
    def _digests(self) -> list[bytes]:
        digests = self._column("digest", (self._stored, 16), np.dtype("u1")).tobytes()
        return [digests[at : at + 16] for at in range(0, len(digests), 16)]

    @cached_property
    def _offsets(self) -> list[int]:
        """Where each stored value begins in `values`, in bytes; and where the last one ends."""
        if self.form != "ragged":
            size = self._width if self.form == "text" else self.kind.itemsize * prod(self.shape or ())
            return [number * size for number in range(self._stored + 1)]
        offset = self._column("offset", (self._stored + 1,))
        if offset[0] != 0 or (np.diff(offset) < 0).any() or offset[-1] > self._run.size * 2**15:
            raise StoreError(f"{self.name!r} has values that begin before others end")
        return [number * self.kind.itemsize for number in offset.tolist()]

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        """The shape of each stored value, which must take the bytes that lie there for it."""
        found = self._column("shape", (self._stored, self._dimensions)).tolist()
        shapes = [tuple(size for size in sizes if size >= 0) for sizes in found]
        ends = self._offsets
        if any(self.kind.itemsize * prod(shape) != ends[at + 1] - ends[at] for at, shape in enumerate(shapes)):
            raise StoreError(f"{str(self._run.path)!r} is damaged: {self.name!r} has values of another shape")
        return shapes

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        if self.shape is not None:
            return [self.shape] * len(slots)
        return [self._shapes[slot] for slot in slots.tolist()]

    def sizes(self, slots: Array) -> Array:
        """The bytes of stored values, with those that fill up a text."""
        return np.diff(np.array(self._offsets, np.int64))[slots]

    @cached_property
    def _values(self) -> Any:
        inner, total = self.kind.inner, self._offsets[-1] // max(self.kind.itemsize, 1)
        shape: tuple[int, ...] = (total, *inner)
        if self.form != "ragged":
            shape = (self._stored, *(self.shape or ()), *inner)
        itemsize = self._width if self.form == "text" else self.kind.bits.itemsize
        with self._reading():
            return plain(self._group, "values", shape, itemsize, self._run.size)

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values; those that lie together are read at once."""
        offsets, digests, wanted = self._offsets, self._digests, slots.tolist()
        at = 0
        while at < len(wanted):
            last = at
            while (
                last + 1 < len(wanted)
                and wanted[last + 1] == wanted[last] + 1
                and (offsets[wanted[last + 1] + 1] - offsets[wanted[at]] <= _BLOCK)
            ):
                last += 1
            first = offsets[wanted[at]]
            block = memoryview(self._bytes(wanted[at], wanted[last] + 1))
            for slot in wanted[at : last + 1]:
                piece: Any = block[offsets[slot] - first : offsets[slot + 1] - first]
                piece = bytes(piece).rstrip(b"\0") if self.form == "text" else piece
                if xxh3_128_digest(piece) != digests[slot]:
                    raise StoreError(f"{str(self._run.path)!r} is damaged: a value of {self.name!r} is not what it was")
                yield piece
            at = last + 1

    def _bytes(self, start: int, stop: int) -> Any:
        """The bytes of stored values that follow each other."""
        size = self._offsets[stop] - self._offsets[start]
        out = np.empty(size, np.uint8)
        if self.form == "ragged":
            start, stop = (self._offsets[slot] // self.kind.itemsize for slot in (start, stop))
        with self._reading():
            read_rows(self._values, start, stop, out)
        return out.data

    def _column(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any] | None = None) -> Array:
        with self._reading():
            return self._run.column(self._group, name, shape, dtype or _TYPES[name], self._sums.get(name))

    def _reading(self) -> Any:
        return self._run.reading(repr(self.name))
