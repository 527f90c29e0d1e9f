"""Builds a new HDF5 file. The library makes the structure; the data are written directly, without the library.

The HDF5 library has been seen to crash the process on a full disk. So the room for the whole file is allocated before
the library opens it, and a full disk is an error of the system. Plain data are contiguous: their places are known as
soon as they are declared, and a reader may read any part of them. Compressed data are chunks of about 256 KiB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5z

from insitu.errors import choose
from insitu.operating_system import CREATE_TO_CHANGE, reserve
from insitu.store.files import write_all, write_at
from insitu.store.hdf5 import BLOSC2, need_blosc2, text_attribute
from insitu.store.stored_type import Array

CHUNK = 2**18
COMPRESSIONS = ("none", "gzip", "lzf", "blosc2")
_OBJECT = 4096  # more than the library takes for a dataset, its attributes and its link
_MOST_CACHED = 2**28  # for the chunks that are not full yet, of all datasets


class DatasetWriter(Protocol):
    """Takes the data of one dataset, in order."""

    pending: int

    def add(self, piece: Any) -> None:
        """Take the next bytes."""
        ...

    def flush(self, *, is_last: bool = False) -> None:
        """Write the bytes that wait; those that do not fill a chunk wait until the last flush."""
        ...


class PendingBytes:
    """Bytes that wait to be written."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self.pending = 0

    def add(self, piece: Any) -> None:
        """Take the next bytes."""
        self._pieces.append(piece)
        self.pending += len(piece)


class ContiguousWriter(PendingBytes):
    """Writes contiguous data to their place in the file."""

    def __init__(self, file: int, place: int) -> None:
        super().__init__()
        self._file, self._place = file, place

    def flush(self, *, is_last: bool = False) -> None:
        """Write all bytes that wait."""
        if self._pieces:
            are_small = self.pending < len(self._pieces) * CHUNK // 16
            pieces = [b"".join(self._pieces)] if are_small else self._pieces
            self._place = write_at(self._file, pieces, self._place)
            self._pieces, self.pending = [], 0


class ChunkWriter(PendingBytes):
    """Compresses whole chunks, so that none is written twice; a chunk has `rows` rows of `row_size` bytes."""

    def __init__(self, dataset: Any, row_size: int, rows: int) -> None:
        super().__init__()
        self._dataset, self._row_size, self._rows = dataset, row_size, rows
        self._written = 0

    def flush(self, *, is_last: bool = False) -> None:
        """Compress the chunks that are full."""
        unit = self._row_size if is_last else self._row_size * self._rows
        size = self.pending // unit * unit
        if not size:
            return
        joined = b"".join(self._pieces)
        write_rows(self._dataset, self._written, np.frombuffer(joined, np.uint8, size), size // self._row_size)
        self._written += size // self._row_size
        self._pieces, self.pending = [joined[size:]], len(joined) - size


def write_rows(dataset: Any, start: int, data: Array, count: int) -> None:
    """Write rows as the bytes they are, without conversion."""
    space = dataset.get_space()
    inner = space.get_simple_extent_dims()[1:]
    space.select_hyperslab((start, *(0 for _ in inner)), (count, *inner))
    dataset.write(h5s.create_simple((count, *inner)), space, data, dataset.get_type())


class FileBuilder:
    """Declares groups and datasets in a new file, and gives the writers for their data."""

    def __init__(self, file: h5py.File, descriptor: int, compression: str, datasets: int) -> None:
        self.file = file
        self._descriptor = descriptor
        self._compression = compression
        # The last chunk of each dataset waits in memory until it is full.
        self._chunk = max(2**12, min(CHUNK, _MOST_CACHED // max(datasets, 1)))

    def group(self, where: str, attributes: Mapping[str, str]) -> Any:
        """A group with attributes for a reader with plain h5py."""
        group = self.file.create_group(where)
        for name, value in attributes.items():
            group.attrs[name] = text_attribute(value)
        return group

    def column(self, group: Any, name: str, column: Array, h5type: Any) -> None:
        """A small dataset, written at once."""
        writer = self.dataset(group, name, column.shape, h5type, is_packed=False)
        writer.add(column.tobytes())
        writer.flush(is_last=True)

    def dataset(
        self, group: Any, name: str, shape: tuple[int, ...], h5type: Any, *, is_packed: bool = True
    ) -> DatasetWriter:
        """Declare a dataset, which may be compressed if `is_packed`."""
        size = h5type.get_size() * prod(shape)
        options = h5p.create(h5p.DATASET_CREATE)
        options.set_fill_time(h5d.FILL_TIME_NEVER)
        if not is_packed or self._compression == "none" or not size:
            options.set_layout(h5d.CONTIGUOUS)
            options.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            dataset = h5d.create(group.id, name.encode(), h5type, h5s.create_simple(shape), options)
            return ContiguousWriter(self._descriptor, dataset.get_offset() or 0)
        chunks = chunk_shape(shape, h5type.get_size(), self._chunk)
        options.set_chunk(chunks)
        _set_compression(options, self._compression)
        dataset = h5d.create(group.id, name.encode(), h5type, h5s.create_simple(shape), options)
        return ChunkWriter(dataset, size // shape[0], chunks[0])


def _set_compression(options: Any, compression: str) -> None:
    if compression == "blosc2":
        settings = need_blosc2().Blosc2(cname="zstd", clevel=5).filter_options
        options.set_filter(BLOSC2, h5z.FLAG_OPTIONAL, settings)
        return
    options.set_shuffle()
    if compression == "gzip":
        options.set_deflate(4)
    else:
        options.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)


def chunk_shape(shape: tuple[int, ...], itemsize: int, size: int = CHUNK) -> tuple[int, ...]:
    """A chunk of about `size` bytes: whole rows if they are small, a part of one row if they are large.

    >>> chunk_shape((1000, 64), 4), chunk_shape((10, 1024, 1024), 4), chunk_shape((3,), 4)
    ((1000, 64), (1, 64, 1024), (3,))
    """
    left, chunks = max(1, size // itemsize), []
    for length in reversed(shape):
        chunks.append(max(1, min(length, left)))
        left //= max(1, chunks[-1])
    return tuple(reversed(chunks))


def check_compression(compression: str) -> str:
    """The name, if the compression is known and its package is installed."""
    if choose("compression", compression, COMPRESSIONS) == "blosc2":
        need_blosc2()
    return compression


@contextmanager
def build_file(path: Path, payload: int, datasets: int, compression: str) -> Iterator[FileBuilder]:
    """A new file that only its owner can read, with room for the payload; it is synced at the end."""
    descriptor = os.open(path, CREATE_TO_CHANGE, 0o600)
    try:
        write_all(descriptor, [image := _empty_file()], len(image))
        reserve(descriptor, payload + payload // 64 + _OBJECT * (datasets + 256))
        with h5py.File(path, "r+", libver=("v110", "v110"), locking=False) as file:
            yield FileBuilder(file, descriptor, compression, datasets)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _empty_file() -> bytes:
    with h5py.File("memory", "w", driver="core", backing_store=False, libver=("v110", "v110")) as file:
        file.flush()
        image: bytes = file.id.get_file_image()
        return image
