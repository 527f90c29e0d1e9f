"""The state of a journal, without reading it: has it ended, does a process still write it, was that process killed?

Only the END frame says that a journal has ended. A lock is a hint: some file systems have none, and others keep it to
one machine. It is exact where the writer got its lock and runs, or ran, on this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from insitu.operating_system import READ_NO_LINK, is_file_locked, read_at
from insitu.store.journal import frames
from insitu.store.journal.parts import JournalPlace, journal_files
from insitu.store.journal.process import Process

State = Literal["ended", "running", "killed", "unknown"]


@dataclass(frozen=True, slots=True)
class JournalOwner:
    """The writer of a journal, as its first frame declares: the process, whether it got the lock, when it began."""

    process: Process | None = None
    has_lock: bool = False
    began: float = 0.0

    @classmethod
    def from_json(cls, record: Any) -> JournalOwner:
        """The owner that an ABOUT frame names; fields that do not make sense are left empty."""
        began = record.get("time")
        is_time = type(began) in (int, float)
        return cls(
            process=Process.from_json(record.get("process")),
            has_lock=record.get("lock") is True,
            began=float(began) if is_time else 0.0,
        )


@contextmanager
def open_for_reading(path: Path) -> Iterator[int]:
    """The number of an open file, which is not a link."""
    file = os.open(path, READ_NO_LINK)
    try:
        yield file
    finally:
        os.close(file)


def owner_of(folder: Path) -> JournalOwner:
    """The writer of the journal in this folder; empty if its first frame cannot be read."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        for path, tag in journal_files(folder)[:1]:
            with open_for_reading(path) as file:
                frame = frames.FrameScan(frames.OpenFile(file), tag).first()
            if frame is not None and frame.kind == frames.ABOUT:
                return JournalOwner.from_json(json.loads(frame.index))
    return JournalOwner()


def has_ended(folder: Path) -> bool:
    """Whether the last bytes of a journal are those of its END frame."""
    with suppress(OSError):
        for path, tag in journal_files(folder)[-1:]:
            last = frames.last_bytes(tag)
            with open_for_reading(path) as file:
                size = os.fstat(file).st_size
                return size > len(last) and read_at(file, len(last), size - len(last)) == last
    return False


def state_of(place: JournalPlace) -> State:
    """The state of a journal at this moment."""
    if has_ended(place.path):
        return "ended"
    return _state_without_end(place.path, owner_of(place.path))


def is_over(place: JournalPlace) -> bool:
    """Whether nobody can write to a journal any more: it has ended, or its process is known to be dead.

    A lock that nobody holds is not enough here: this may be a copy of a journal that is written elsewhere.
    """
    process = owner_of(place.path).process
    return has_ended(place.path) or (process is not None and process.is_alive() is False)


def _state_without_end(folder: Path, owner: JournalOwner) -> State:
    """The state of a journal without an END frame."""
    process = owner.process
    alive = process.is_alive() if process is not None else None
    if alive is False:
        return "killed"
    locked = is_locked(folder)
    if locked:
        return "running"
    is_lock_exact = owner.has_lock and process is not None and process.is_on_this_machine
    if locked is False and is_lock_exact:
        return "killed"
    if alive:
        return "running"
    return "unknown"


def is_locked(folder: Path) -> bool | None:
    """Whether a process holds the lock of the last file of a journal; None if that cannot be known."""
    try:
        for path, _ in journal_files(folder)[-1:]:
            with open_for_reading(path) as file:
                return is_file_locked(file)
    except OSError:
        return None
    return False
