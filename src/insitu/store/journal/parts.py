"""The folder that a run writes into while it goes on: `run.h5.parts`, with a folder for the journal of each process.

The name of such a folder, `rank00003-<run id>-000`, says whose journal it holds: the rank, the run and the attempt.
Journals of several runs may be in one `run.h5.parts`: they never meet. A journal that was made without a run id, as
`rank00003`, belongs to the run that has none.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from insitu.errors import StoreError
from insitu.store.files import PARTS

_PLACE = re.compile(r"rank(\d{5,9})(?:-([0-9a-f]{32})-(\d{3,9}))?")
RUN_ID = re.compile(r"[0-9a-f]{32}")
_JOURNAL = re.compile(r"(\d{5,9})-([0-9a-f]{16})\.journal")
_PASSING = re.compile(r"(compact-[0-9]+|merging)-[0-9a-f]+\.part")
_UNPACKED = re.compile(r"unpacked-[0-9]+-[0-9a-f]+")
MOST_RANKS = 2**18  # each one that is missing is listed
_LARGEST_READ = 2**30  # Linux reads at most 2 GiB at a time


def parts_of(path: str | os.PathLike[str]) -> Path:
    """The folder of the journals of a run that is to be in this file.

    >>> parts_of("run.h5").name
    'run.h5.parts'
    """
    found = Path(path)
    return found.with_name(found.name + PARTS)


@dataclass(frozen=True, slots=True, order=True)
class JournalPlace:
    """The folder of one journal, and whose it is."""

    rank: int
    attempt: int
    run: str
    path: Path


def place_of(parts: Path, rank: int, run: str = "", attempt: int = 0) -> JournalPlace:
    """Where a process writes its journal.

    >>> place_of(Path("run.h5.parts"), 3, "0" * 32, 1).path.name
    'rank00003-00000000000000000000000000000000-001'
    """
    if run and not RUN_ID.fullmatch(run):
        raise StoreError(f"{run!r} is not the id of a run")
    name = f"rank{rank:05d}-{run}-{attempt:03d}" if run else f"rank{rank:05d}"
    return JournalPlace(rank, attempt, run, parts / name)


def places(parts: Path) -> list[JournalPlace]:
    """All journals in the folder of a run, ordered by rank and attempt."""
    found = []
    try:
        for entry in os.scandir(parts):
            match = _PLACE.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False):
                found.append(JournalPlace(int(match[1]), int(match[3] or 0), match[2] or "", Path(entry.path)))
    except OSError as error:
        raise StoreError(f"{str(parts)!r} cannot be read: {error.strerror}") from error
    if found and (largest := max(place.rank for place in found)) >= MOST_RANKS:
        raise StoreError(f"{f'rank{largest}'!r} is the folder of a rank that no run has: remove it")
    return sorted(found)


def check_not_link(parts: Path) -> None:
    """Raise if the folder is a symbolic link: who made that could see, and choose, what is written."""
    if os.path.islink(parts):
        raise StoreError(f"{str(parts)!r} is a symbolic link, and those are not written through: remove it")


def journal_files(folder: Path) -> list[tuple[Path, bytes]]:
    """The files of a journal in their order, each with the tag that its name holds."""
    found = []
    for entry in os.scandir(folder):
        if (match := _JOURNAL.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
            found.append((int(match[1]), match[2], Path(entry.path)))
    return [(path, bytes.fromhex(tag)) for _, tag, path in sorted(found)]


def passing_name(parts: Path) -> Path:
    """Where the file of a run is made before it gets its name."""
    return parts / f"compact-{os.getpid()}-{os.urandom(4).hex()}.part"


def remove_journal(folder: Path) -> None:
    """Remove the files of a journal, and nothing that is not one."""
    with suppress(OSError):
        for path, _ in journal_files(folder):
            path.unlink()
        folder.rmdir()


def remove_leftovers(parts: Path) -> None:
    """Remove files that were never finished, and the folder if nothing is left in it."""
    with suppress(OSError):
        for entry in os.scandir(parts):
            if _PASSING.fullmatch(entry.name):
                os.unlink(entry.path)
            elif _UNPACKED.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                rmtree(entry.path, ignore_errors=True)
        parts.rmdir()


class FilePool:
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

    def source(self, number: int, size: int) -> PooledFile:
        """The first bytes of a file, read through here."""
        return PooledFile(self, number, size)

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


class PooledFile:
    """The first `size` bytes of one of many files; what is written to it later is not seen."""

    def __init__(self, files: FilePool, number: int, size: int) -> None:
        self._files, self._number, self.size = files, number, size

    def read(self, start: int, length: int) -> bytes:
        """Some of them; fewer if they end before."""
        return self._files.read(self._number, start, min(length, max(0, self.size - start)))
