"""The folder that a run writes into while it goes on: `run.h5.parts`, with a folder of journals for each rank."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path

from insitu.errors import StoreError
from insitu.store import PARTS

_RANK = re.compile(r"rank(\d{5,9})")
_JOURNAL = re.compile(r"(\d{5,9})-([0-9a-f]{16})\.journal")
_PASSING = re.compile(r"compact-[0-9]+-[0-9a-f]+\.part")
MOST_RANKS = 2**18  # each one that is missing is listed
_LARGEST_READ = 2**30  # Linux reads at most 2 GiB at a time


def parts_of(path: str | os.PathLike[str]) -> Path:
    """The folder of the journals of a run that is to be in this file.

    >>> parts_of("run.h5").name
    'run.h5.parts'
    """
    found = Path(path)
    return found.with_name(found.name + PARTS)


def rank_folders(parts: Path) -> dict[int, Path]:
    """The folders of the ranks that wrote something, by rank."""
    found = {}
    try:
        for entry in os.scandir(parts):
            if (match := _RANK.fullmatch(entry.name)) and entry.is_dir(follow_symlinks=False):
                found[int(match[1])] = Path(entry.path)
        if found and max(found) >= MOST_RANKS:
            raise StoreError(f"{f'rank{max(found)}'!r} is the folder of a rank that no run has: remove it")
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{str(parts)!r} cannot be read: {error.strerror}") from error
    return dict(sorted(found.items()))


def journal_files(folder: Path) -> list[tuple[Path, bytes]]:
    """The files of the journal of a rank in their order, each with the tag that its name holds."""
    found = []
    for entry in os.scandir(folder):
        if (match := _JOURNAL.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
            found.append((int(match[1]), match[2], Path(entry.path)))
    return [(path, bytes.fromhex(tag)) for _, tag, path in sorted(found)]


def is_live(folder: Path) -> bool:
    """Whether the run of a rank still goes on: a process holds the lock of one of its files."""
    with suppress(OSError):
        return any(_is_locked(path) for path, _ in reversed(journal_files(folder)))
    return False


def _is_locked(path: Path) -> bool:
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
    return False


def passing_name(parts: Path) -> Path:
    """Where the file of a run is made before it gets its name."""
    return parts / f"compact-{os.getpid()}-{os.urandom(4).hex()}.part"


def discard(parts: Path) -> None:
    """Remove the journals of a run, and nothing that is not one."""
    with suppress(OSError, StoreError):
        for folder in rank_folders(parts).values():
            for path, _ in journal_files(folder):
                path.unlink()
            folder.rmdir()
        for entry in os.scandir(parts):
            if _PASSING.fullmatch(entry.name):
                os.unlink(entry.path)
        parts.rmdir()


class Files:
    """Opens files to read from them, a few at a time."""

    def __init__(self, paths: list[Path], most: int = 32) -> None:
        self._paths = paths
        self._open: dict[int, int] = {}
        self._most = most

    def read(self, number: int, start: int, length: int) -> bytes:
        """These bytes of a file; fewer if it ends before."""
        file = self._open.get(number)
        if file is None:
            file = self._opened(number)
        try:
            return self._read(file, start, length)
        except OSError as error:
            raise StoreError(f"{str(self._paths[number])!r} cannot be read: {error.strerror}") from error

    def source(self, number: int, size: int) -> FileSource:
        """The first bytes of a file, read through here."""
        return FileSource(self, number, size)

    def _read(self, file: int, start: int, length: int) -> bytes:
        if length <= _LARGEST_READ:
            return os.pread(file, length, start)
        ends = range(start, start + length, _LARGEST_READ)
        return b"".join([os.pread(file, min(_LARGEST_READ, start + length - at), at) for at in ends])

    def _opened(self, number: int) -> int:
        if len(self._open) >= self._most:
            os.close(self._open.pop(next(iter(self._open))))
        try:
            file = os.open(self._paths[number], os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise StoreError(f"{str(self._paths[number])!r} cannot be read: {error.strerror}") from error
        self._open[number] = file
        return file

    def close(self) -> None:
        """Close them all; reading opens them again."""
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()


class FileSource:
    """The first `size` bytes of one of many files; what is written to it later is not seen."""

    def __init__(self, files: Files, number: int, size: int) -> None:
        self._files, self._number, self.size = files, number, size

    def read(self, start: int, length: int) -> bytes:
        """Some of them; fewer if they end before."""
        return self._files.read(self._number, start, min(length, max(0, self.size - start)))
