"""Tables in an HDF5 file: one group for each table under `/events`, one dataset for each column.

A file is made in memory and then written in one go under another name: the HDF5 library has been seen to crash the
process on a full disk, `os.write` raises. The reader opens hard links to plain numeric columns and nothing else, so
that a file from a stranger can make it neither open another file nor fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from insitu.errors import MissingError, StoreError, tell
from insitu.store.files import write_whole
from insitu.store.format_version import TRACE_VERSION
from insitu.store.hdf5 import (
    TRACE_FORMAT,
    attribute,
    check_format_version,
    check_own_data,
    child,
    filters_of,
    reading,
    text_attribute,
)
from insitu.store.trace.schema import NOTHING, SCHEMA, Column, ColumnRule, Tables
from insitu.store.trace.trace_decoder import decode
from insitu.store.trace.trace_encoder import encode
from insitu.store.trace.trace_parts import join_traces, only_whole_steps
from insitu.trace.missing import Missing, missing_of
from insitu.trace.trace import Trace

try:
    import h5py
except ImportError:
    raise MissingError("reading and writing .h5 files needs h5py: pip install h5py") from None

_ATTRIBUTES = {"insitu": "insitu", "python": "python", "torch": "torch", "start": "started"}
EARLIER = "earlier"  # the group with the earlier parts of a long trace
_MOST_PARTS = 100_000
_CHUNK = 2**18
_SMALL = 2**12  # the index of the chunks alone takes half of that
_MOST_BYTES = 2**32
_MOST_ROWS = 2**22  # where the file is small; one in which each row takes half a byte may have more
_MOST_NUMBERS = 2**27  # as many as all values of a trace may have tensors
_BYTES = {"text", "data"}  # tables whose rows are bytes and stay that
_NUMBERS = {"refs", "histograms"}  # those whose rows are numbers and stay that
# What gzip can do at best. A dataset that declares more than its stored bytes can hold was made to fill the memory.
_BEST_RATIO = 1100
_FILTERS = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}


def write_trace(trace: Trace, path: Path, *, overwrite: bool) -> None:
    """Write a trace, with the earlier parts that are in its archive."""
    _ = trace.events  # decoding them may add parts to the archive
    earlier = trace._archive.files if trace._archive is not None else []
    about = _about_with_archive(trace) if earlier else trace.about
    write(encode(trace, about), about, path, overwrite=overwrite, earlier=earlier)


def _about_with_archive(trace: Trace) -> dict[str, Any]:
    """The facts about a trace whose archive is saved with it: only the other events are missing."""
    about, missing = dict(trace.about), trace.missing
    if missing is None:
        return about
    about.pop("missing", None)
    count = missing.events - missing.on_disk
    if count:
        about["missing"] = replace(missing, events=count, on_disk=0).plain()
    return about


def read_trace(path: Path, room: int) -> Trace:
    """The last `room` events of a trace, from the beginning of a step; the user is told if there are more."""
    parts, unread = read_parts(path, room)
    trace = join_traces([decode(part) for part in parts])
    if unread is None:
        return trace
    known = missing_of(trace.about.get("missing"))
    trace = only_whole_steps(trace, unread, unread if known is None else known.and_also(unread))
    count = trace.about["missing"]["events"]
    tell(f"{str(path)!r} holds {count:,} earlier events, which are not loaded: memory='4GB' loads more")
    return trace


def write(
    tables: Tables, about: Mapping[str, Any], path: Path, *, overwrite: bool, earlier: Sequence[Path] = ()
) -> None:
    """Write the tables, and the facts about the trace that are plain as attributes, to a file.

    A long trace comes in parts: the events of `earlier` files go into groups of their own, `/earlier/0` the oldest.
    """
    write_whole(path, image(tables, about, earlier), overwrite=overwrite)


def image(tables: Tables, about: Mapping[str, Any], earlier: Sequence[Path] = ()) -> bytes:
    """The content of such a file."""
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        file.attrs["format"] = text_attribute(TRACE_FORMAT)
        file.attrs["format_version"] = TRACE_VERSION
        file.attrs["checksum"] = _checksum(tables)
        file.attrs.update({name: text_attribute(about[key]) for name, key in _ATTRIBUTES.items() if key in about})
        for table, columns in tables.items():
            plain = _plain_column(table, columns)
            for name, column in columns.items():
                _write_column(file, f"events/{table}/{name}", column, compressed=name != plain)
        for index, part in enumerate(earlier):
            _copy(part, file, f"{EARLIER}/{index}")
        file.flush()
        content: bytes = file.id.get_file_image()
        return content


def _copy(part: Path, file: h5py.File, name: str) -> None:
    with h5py.File(part, "r") as source:
        _check_format(source)
        source.copy("events", file, name=name)
        file[name].attrs["checksum"] = source.attrs["checksum"]


def _plain_column(table: str, columns: Mapping[str, Column]) -> str | None:
    """Of a table of very many rows, the column that is not compressed: however alike they are, it is read again."""
    if table in _BYTES or len(next(iter(columns.values()))) <= _MOST_ROWS:
        return None
    return min(columns, key=lambda name: columns[name].itemsize)


def _write_column(file: h5py.File, name: str, column: Column, *, compressed: bool = True) -> None:
    if column.nbytes < _SMALL or not compressed:
        file.create_dataset(name, data=column)
        return
    chunk = min(len(column), _CHUNK // column.itemsize)
    file.create_dataset(name, data=column, chunks=(chunk,), compression="gzip", compression_opts=1, shuffle=True)


def _checksum(tables: Mapping[str, Mapping[str, Column]]) -> int:
    """Over all columns as they are stored: a bit that flipped on the way is an error, and not another number."""
    checksum = 0
    for table, rules in SCHEMA.items():
        for column in [tables[table][name] for name in rules if name in tables[table]]:
            checksum = crc32(column.astype(column.dtype.newbyteorder("<")).tobytes(), checksum)
    return checksum


def read(path: Path) -> dict[str, dict[str, Column]]:
    """The tables of a file; a StoreError when it is not a trace of a version known here, or not whole."""
    return read_parts(path, 0)[0][-1]


def read_parts(path: Path, room: int) -> tuple[list[dict[str, dict[str, Column]]], Missing | None]:
    """The tables of a trace in parts, the oldest first, as far as there is room for so many events; and what is not.

    The last part is always read.
    """
    with reading(), h5py.File(path, "r") as file:
        _check_format(file)
        found = [_tables(child(file, "events", h5py.Group), attribute(file, "checksum"))]
        missing = None
        for part in reversed(_earlier(file)):
            count = _rows(part, "id").size
            room -= len(found[0]["rows"]["id"])
            if missing is None and room >= count:
                found.insert(0, _tables(part, attribute(part, "checksum")))
                continue
            left = Missing(int(count), _range(_rows(part, "step")))
            missing = left if missing is None else missing.and_also(left)
        return found, missing


def _earlier(file: h5py.File) -> list[h5py.Group]:
    if EARLIER not in file.keys():  # noqa: SIM118 - `in file` would follow the link
        return []
    parts = child(file, EARLIER, h5py.Group)
    if len(parts) > _MOST_PARTS:
        raise StoreError(f"it has {len(parts)} parts, and at most {_MOST_PARTS} are read")
    return [child(parts, str(index), h5py.Group) for index in range(len(parts))]


def _rows(part: h5py.Group, name: str) -> h5py.Dataset:
    found = child(child(part, "rows", h5py.Group), name, h5py.Dataset)
    _check_sizes([found])
    return found


def _range(steps: h5py.Dataset) -> tuple[int, int]:
    column = steps[:]
    if len(column):
        return (max(0, int(column.min())), max(0, int(column.max())))
    return (0, 0)


def _tables(events: h5py.Group, checksum: Any) -> dict[str, dict[str, Column]]:
    datasets = {table: _datasets(child(events, table, h5py.Group), rules) for table, rules in SCHEMA.items()}
    _check_sizes([dataset for columns in datasets.values() for dataset in columns.values()])
    _check_counts(datasets)
    tables = {table: {name: data[:] for name, data in columns.items()} for table, columns in datasets.items()}
    if _checksum(tables) != checksum:
        raise StoreError("it is damaged: its checksum is not that of its columns")
    return {table: _with_added(columns, SCHEMA[table]) for table, columns in tables.items()}


def _datasets(group: h5py.Group, rules: Mapping[str, ColumnRule]) -> dict[str, h5py.Dataset]:
    """The columns of a table; one that was added later may be missing."""
    expected = [name for name, rule in rules.items() if not rule.added or name in group.keys()]  # noqa: SIM118
    return {name: child(group, name, h5py.Dataset) for name in expected}


def _with_added(columns: dict[str, Column], rules: Mapping[str, ColumnRule]) -> dict[str, Column]:
    """All columns of a table: there is nothing in those that were added after the file was written."""
    length = len(next(iter(columns.values())))
    missing = {name: np.full(length, NOTHING, np.int8) for name in rules if name not in columns}
    return {**columns, **missing}


def _check_format(file: h5py.File) -> None:
    if attribute(file, "format") != TRACE_FORMAT.encode():
        raise StoreError("it is an HDF5 file, but not one of insitu: its attribute 'format' does not say so")
    check_format_version(file, "trace", TRACE_VERSION)


def _check_counts(tables: Mapping[str, Mapping[str, h5py.Dataset]]) -> None:
    """Rows become objects, so a few bytes must not become millions of them."""
    stored = sum(dataset.id.get_storage_size() for columns in tables.values() for dataset in columns.values())
    for table in tables.keys() - _BYTES:
        most = (_MOST_NUMBERS if table in _NUMBERS else _MOST_ROWS) + 2 * stored
        for dataset in tables[table].values():
            if dataset.size and dataset.size > most:
                raise StoreError(f"{dataset.name} declares {dataset.size} rows, in a file of {stored} bytes")


def _check_sizes(datasets: list[h5py.Dataset]) -> None:
    total = 0
    for dataset in datasets:
        _check_plain(dataset)
        stored = dataset.id.get_storage_size()
        if dataset.nbytes > _BEST_RATIO * stored:
            raise StoreError(f"{dataset.name} declares {dataset.nbytes} bytes and stores {stored}")
        total += dataset.nbytes
    if total > _MOST_BYTES:
        raise StoreError(f"it declares {total} bytes, and at most {_MOST_BYTES} are read")


def _check_plain(dataset: h5py.Dataset) -> None:
    check_own_data(dataset)
    if dataset.ndim != 1 or dataset.dtype.kind not in "iuf" or dataset.dtype.itemsize > 8:
        raise StoreError(f"{dataset.name} is not a column of numbers: {dataset.dtype} in {dataset.ndim} dimensions")
    if not _FILTERS.issuperset(filters_of(dataset)):
        raise StoreError(f"{dataset.name} is compressed with an unknown filter")
