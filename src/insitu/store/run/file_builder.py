"""An HDF5 file in the making. The library makes the structure; the data are written around it, past the library.

It has been seen to crash the process on a full disk. So the room for everything is taken before the library opens the
file, and a disk that is full is an error of the system. Plain data are contiguous: their places are known as soon as
they are declared, and a reader may take any part of them. Compressed data are chunks of about 256 KiB.
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
from insitu.store.files import write_all, write_at
from insitu.store.hdf5 import BLOSC2, need_blosc2
from insitu.store.stored_type import Array

CHUNK = 2**18
COMPRESSIONS = ("none", "gzip", "lzf", "blosc2")
_OBJECT = 4096  # more than the library takes for a dataset, its attributes and its link
_MOST_CACHED = 2**28  # for the chunks that are not full yet, of all datasets


class DatasetWriter(Protocol):
    """Takes the data of one dataset, in order."""

    pending: int

    def add(self, piece: Any) -> None:
        """Keep the next bytes."""
        ...

    def flush(self, *, last: bool = False) -> None:
        """Write what was kept; what does not fill a chunk waits until the last time."""
        ...


class PendingBytes:
    """Bytes that wait to be written."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self.pending = 0

    def add(self, piece: Any) -> None:
        """Keep the next bytes."""
        self._pieces.append(piece)
        self.pending += len(piece)


class ContiguousWriter(PendingBytes):
    """Writes contiguous data to their place in the file."""

    def __init__(self, file: int, place: int) -> None:
        super().__init__()
        self._file, self._place = file, place

    def flush(self, *, last: bool = False) -> None:
        """Write all."""
        if self._pieces:
            small = self.pending < len(self._pieces) * CHUNK // 16
            pieces = [b"".join(self._pieces)] if small else self._pieces
            self._place = write_at(self._file, pieces, self._place)
            self._pieces, self.pending = [], 0


class ChunkWriter(PendingBytes):
    """Compresses whole chunks, so that none is written twice."""

    def __init__(self, dataset: Any, row: int, rows: int) -> None:
        super().__init__()
        self._dataset, self._row, self._rows = dataset, row, rows
        self._done = 0

    def flush(self, *, last: bool = False) -> None:
        """Compress the chunks that are full."""
        unit = self._row if last else self._row * self._rows
        size = self.pending // unit * unit
        if not size:
            return
        whole = b"".join(self._pieces)
        write_rows(self._dataset, self._done, np.frombuffer(whole, np.uint8, size), size // self._row)
        self._done += size // self._row
        self._pieces, self.pending = [whole[size:]], len(whole) - size


def write_rows(dataset: Any, start: int, data: Array, count: int) -> None:
    """Write rows as the bytes they are, with no conversion."""
    space = dataset.get_space()
    rest = space.get_simple_extent_dims()[1:]
    space.select_hyperslab((start, *(0 for _ in rest)), (count, *rest))
    dataset.write(h5s.create_simple((count, *rest)), space, data, dataset.get_type())


class FileBuilder:
    """Declares groups and datasets in a new file, and hands out the sinks for their data."""

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

    def column(self, group: Any, name: str, column: Array, kind: Any) -> None:
        """A small dataset, written at once."""
        sink = self.dataset(group, name, column.shape, kind, packed=False)
        sink.add(column.tobytes())
        sink.flush(last=True)

    def dataset(
        self, group: Any, name: str, shape: tuple[int, ...], kind: Any, *, packed: bool = True
    ) -> DatasetWriter:
        """Declare a dataset."""
        size = kind.get_size() * prod(shape)
        made = h5p.create(h5p.DATASET_CREATE)
        made.set_fill_time(h5d.FILL_TIME_NEVER)
        if not packed or self._compression == "none" or not size:
            made.set_layout(h5d.CONTIGUOUS)
            made.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            dataset = h5d.create(group.id, name.encode(), kind, h5s.create_simple(shape), made)
            return ContiguousWriter(self._descriptor, dataset.get_offset() or 0)
        chunks = chunk_shape(shape, kind.get_size(), self._chunk)
        made.set_chunk(chunks)
        _compress(made, self._compression)
        dataset = h5d.create(group.id, name.encode(), kind, h5s.create_simple(shape), made)
        return ChunkWriter(dataset, size // shape[0], chunks[0])


def _compress(made: Any, compression: str) -> None:
    if compression == "blosc2":
        options = need_blosc2().Blosc2(cname="zstd", clevel=5).filter_options
        made.set_filter(BLOSC2, h5z.FLAG_OPTIONAL, options)
        return
    made.set_shuffle()
    if compression == "gzip":
        made.set_deflate(4)
    else:
        made.set_filter(h5z.FILTER_LZF, h5z.FLAG_OPTIONAL)


def chunk_shape(shape: tuple[int, ...], itemsize: int, size: int = CHUNK) -> tuple[int, ...]:
    """A chunk of about so many bytes: whole rows if they are small, a part of one if they are large.

    >>> chunk_shape((1000, 64), 4), chunk_shape((10, 1024, 1024), 4), chunk_shape((3,), 4)
    ((1000, 64), (1, 64, 1024), (3,))
    """
    left, chunks = max(1, size // itemsize), []
    for length in reversed(shape):
        chunks.append(max(1, min(length, left)))
        left //= max(1, chunks[-1])
    return tuple(reversed(chunks))


def check_compression(compression: str) -> str:
    """The name, if there is such a compression and its package is installed."""
    if choose("compression", compression, COMPRESSIONS) == "blosc2":
        need_blosc2()
    return compression


def text_attribute(value: object) -> np.bytes_:
    """A text for a reader with plain h5py; attributes take neither NUL nor 64 KiB."""
    return np.bytes_(str(value).replace("\0", " ").encode("utf-8", "backslashreplace")[:1000])


@contextmanager
def build_file(path: Path, payload: int, datasets: int, compression: str) -> Iterator[FileBuilder]:
    """A new file that only its owner reads, with room for all that is to come; it is synced at the end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, [image := _empty_file()], len(image))
        os.posix_fallocate(descriptor, 0, payload + payload // 64 + _OBJECT * (datasets + 256))
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
