"""Many files to read from, on this machine or at an address, of which a few are open at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from errno import ENOENT
from pathlib import Path
from threading import Lock

from insitu.errors import StoreError
from insitu.operating_system import READ_NO_LINK, read_at
from insitu.store.address import Address
from insitu.store.journal.frames import FrameScan
from insitu.store.journal.heads import HeadScan, heads_name
from insitu.store.journal.sent_note import noted_address

_LARGEST_READ = 2**30  # Linux reads at most 2 GiB at a time
_MOST_HEADS = 2**27  # bytes of heads that are kept


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file of a journal, with the bytes that it had when it was read; on this machine, or at an address."""

    path: Path
    size: int
    tag: bytes
    address: Address | None = None

    @property
    def name(self) -> str:
        """The path of a file from the folder of its address."""
        return f"{self.path.parent.name}/{self.path.name}"


def moved(file: JournalFile) -> JournalFile:
    """A file that was on this machine a moment ago, at the address that it was sent to; raises if there is none."""
    noted = noted_address(file.path.parent.parent)
    if noted is None:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
    return replace(file, address=Address.parse(noted))


class FilePool:
    """Opens files when they are read, and closes the oldest when too many are open. Several threads may read."""

    def __init__(self, files: Sequence[JournalFile], most: int = 32) -> None:
        self._files = list(files)
        self._open: dict[int, int] = {}
        self._heads: dict[int, bytes] = {}
        self._most = most
        self._lock = Lock()

    def read(self, number: int, start: int, length: int) -> bytes:
        """These bytes of a file; fewer if it ends before."""
        file = self._files[number]
        if file.address is not None:
            return file.address.read(file.name, start, length)
        try:
            return self._read_here(number, start, length)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{str(file.path)!r} cannot be read: {error.strerror}") from error

    def _read_here(self, number: int, start: int, length: int) -> bytes:
        try:
            with self._lock:  # another thread may close the file
                return _read(self._descriptor(number), start, length)
        except FileNotFoundError:
            self._files[number] = moved(self._files[number])
            return self.read(number, start, length)

    def scan(self, number: int, sequence: int) -> FrameScan | HeadScan:
        """The frames of a file; of one at an address, from the heads that were sent with it."""
        file = self._files[number]
        source = PooledFile(self, number, file.size)
        heads = b"" if file.address is None else self._heads_of(number, file, file.address)
        if heads:
            return HeadScan(heads, source, file.tag, sequence)
        return FrameScan(source, file.tag, sequence)

    def path(self, number: int) -> Path:
        """The path of a file."""
        return self._files[number].path

    def _heads_of(self, number: int, file: JournalFile, address: Address) -> bytes:
        """The heads of a file at an address; nothing if they are not there, or are not whole."""
        found = self._heads.get(number)
        if found is None:
            found = _checked_heads(address, file)
            while self._heads and sum(map(len, self._heads.values())) + len(found) > _MOST_HEADS:
                self._heads.pop(next(iter(self._heads)))
            self._heads[number] = found
        return found

    def _descriptor(self, number: int) -> int:
        file = self._open.get(number)
        if file is None:
            if len(self._open) >= self._most:
                os.close(self._open.pop(next(iter(self._open))))
            file = os.open(self._files[number].path, READ_NO_LINK)
            self._open[number] = file
        return file

    def close(self) -> None:
        """Close all files; reading opens them again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()


def _checked_heads(address: Address, file: JournalFile) -> bytes:
    name = heads_name(file.name)
    if address.facts(name) is None:
        return b""
    found = address.read(name)
    if HeadScan.fits(found, file.tag, file.size):
        return found
    return b""


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
