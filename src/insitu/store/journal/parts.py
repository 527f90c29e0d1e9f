"""The folder that a run writes into until it ends: `run.h5.parts`, with a folder for the journal of each process.

The name of such a folder, `rank00003-<run id>-000`, says whose journal it holds: the rank, the run and the attempt.
Journals of several runs may be in one `run.h5.parts`, and are never mixed. A journal that was written without a run id,
such as `rank00003`, belongs to the run without an id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from insitu.errors import StoreError
from insitu.store.files import PARTS

_PLACE = re.compile(r"rank(\d{5,9})(?:-([0-9a-f]{32})-(\d{3,9}))?")
RUN_ID = re.compile(r"[0-9a-f]{32}")
_JOURNAL = re.compile(r"(\d{5,9})-([0-9a-f]{16})\.journal")
_UNFINISHED = re.compile(r"(compact-[0-9]+|merging)-[0-9a-f]+\.part")
_UNMERGED = re.compile(r"unmerged-[0-9]+-[0-9a-f]+")
MOST_RANKS = 2**18  # each missing rank is listed


def parts_of(path: str | os.PathLike[str]) -> Path:
    """The folder with the journals of the run that becomes this file.

    >>> parts_of("run.h5").name
    'run.h5.parts'
    """
    found = Path(path)
    return found.with_name(found.name + PARTS)


@dataclass(frozen=True, slots=True, order=True)
class JournalPlace:
    """The folder of one journal, and whose journal it is."""

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


def place_named(parts: Path, name: str) -> JournalPlace | None:
    """The journal whose folder has this name; None for the name of another folder."""
    match = _PLACE.fullmatch(name)
    if match is None:
        return None
    return JournalPlace(int(match[1]), int(match[3] or 0), match[2] or "", parts / name)


def places(parts: Path) -> list[JournalPlace]:
    """All journals in the folder of a run, ordered by rank and attempt."""
    found = []
    try:
        for entry in os.scandir(parts):
            place = place_named(parts, entry.name)
            if place is not None and entry.is_dir(follow_symlinks=False):
                found.append(place)
    except OSError as error:
        raise StoreError(f"{str(parts)!r} cannot be read: {error.strerror}") from error
    check_ranks(found)
    return sorted(found)


def check_ranks(found: Iterable[JournalPlace]) -> None:
    """Raise if a folder is that of a rank that no run has."""
    largest = max((place.rank for place in found), default=0)
    if largest >= MOST_RANKS:
        raise StoreError(f"{f'rank{largest}'!r} is the folder of a rank that no run has: remove it")


def check_not_link(parts: Path) -> None:
    """Raise if the folder is a symbolic link: who made the link could see, and choose, what is written."""
    if os.path.islink(parts):
        raise StoreError(f"{str(parts)!r} is a symbolic link, and insitu does not write through links: remove it")


@dataclass(frozen=True, slots=True)
class JournalName:
    """The name of a file of a journal: the number of the segment, and the tag of the journal."""

    segment: int
    tag: str


def journal_name(name: str) -> JournalName | None:
    """What the name of a file says, if it is a file of a journal.

    >>> journal_name("00003-0123456789abcdef.journal")
    JournalName(segment=3, tag='0123456789abcdef')
    """
    match = _JOURNAL.fullmatch(name)
    if match is None:
        return None
    return JournalName(int(match[1]), match[2])


def segment_number(path: Path) -> int:
    """The number of a segment, from the name of its file; -1 for another file."""
    name = journal_name(path.name)
    if name is None:
        return -1
    return name.segment


def journal_files(folder: Path) -> list[tuple[Path, bytes]]:
    """The files of a journal in their order, each with the tag in its name."""
    found = []
    for entry in os.scandir(folder):
        name = journal_name(entry.name)
        if name is not None and entry.is_file(follow_symlinks=False):
            found.append((name.segment, name.tag, Path(entry.path)))
    return [(path, bytes.fromhex(tag)) for _, tag, path in sorted(found)]


def unfinished_file(parts: Path) -> Path:
    """The name of a merged file until it is complete."""
    return parts / f"compact-{os.getpid()}-{os.urandom(4).hex()}.part"


def unmerged_folder(parts: Path) -> Path:
    """The name of a folder for journals that are made from the file of a run."""
    return parts / f"unmerged-{os.getpid()}-{os.urandom(4).hex()}"


def remove_journal(folder: Path) -> None:
    """Remove the files of a journal, and no other file."""
    with suppress(OSError):
        for path, _ in journal_files(folder):
            path.unlink()
        folder.rmdir()


def remove_leftovers(parts: Path) -> None:
    """Remove files that were never finished, and the folder if it is empty then."""
    with suppress(OSError):
        for entry in os.scandir(parts):
            if _UNFINISHED.fullmatch(entry.name):
                os.unlink(entry.path)
            elif _UNMERGED.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                rmtree(entry.path, ignore_errors=True)
        parts.rmdir()
