"""Many files to read from, of which a few are open at a time."""

from __future__ import annotations

import os
from pathlib import Path

from insitu.errors import StoreError
from insitu.operating_system import READ_NO_LINK, read_at

_LARGEST_READ = 2**30  # Linux reads at most 2 GiB at a time


class FilePool:
    """Opens files when they are read, and closes the oldest when too many are open."""

    def __init__(self, paths: list[Path], most: int = 32) -> None:
        self._paths = paths
        self._open: dict[int, int] = {}
        self._most = most

    def read(self, number: int, start: int, length: int) -> bytes:
        """These bytes of a file; fewer if it ends before."""
        try:
            return _read(self._file(number), start, length)
        except OSError as error:
            raise StoreError(f"{str(self._paths[number])!r} cannot be read: {error.strerror}") from error

    def source(self, number: int, size: int) -> PooledFile:
        """The first bytes of a file, as a source of frames."""
        return PooledFile(self, number, size)

    def _file(self, number: int) -> int:
        file = self._open.get(number)
        if file is None:
            if len(self._open) >= self._most:
                os.close(self._open.pop(next(iter(self._open))))
            file = os.open(self._paths[number], READ_NO_LINK)
            self._open[number] = file
        return file

    def close(self) -> None:
        """Close all files; reading opens them again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()


def _read(file: int, start: int, length: int) -> bytes:
    if length <= _LARGEST_READ:
        return read_at(file, length, start)
    starts = range(start, start + length, _LARGEST_READ)
    return b"".join([read_at(file, min(_LARGEST_READ, start + length - at), at) for at in starts])


class PooledFile:
    """The first `size` bytes of one file of a pool; bytes that are written to it later are not seen."""

    def __init__(self, pool: FilePool, number: int, size: int) -> None:
        self._pool, self._number, self.size = pool, number, size

    def read(self, start: int, length: int) -> bytes:
        """Some of the bytes; fewer if they end before."""
        return self._pool.read(self._number, start, min(length, max(0, self.size - start)))
