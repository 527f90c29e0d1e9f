"""How a journal is getting on, without reading it: has it ended, does a process still write it, was that one killed?

Only the END frame says that a journal has ended. A lock is a hint: some file systems have none, and others keep it to
one machine. It is exact where the writer got its lock and runs, or ran, on this machine.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from insitu.store.journal import frames
from insitu.store.journal.parts import JournalPlace, journal_files
from insitu.store.journal.process import Process

State = Literal["ended", "running", "killed", "unknown"]


@dataclass(frozen=True, slots=True)
class JournalOwner:
    """Who writes a journal, as its first frame says: the process, whether it got the lock, when it began."""

    process: Process | None = None
    has_lock: bool = False
    began: float = 0.0

    @classmethod
    def from_json(cls, said: Any) -> JournalOwner:
        """What the frame ABOUT says; nothing is known where it says something else."""
        began = said.get("time")
        is_time = type(began) in (int, float)
        return cls(Process.from_json(said.get("process")), said.get("lock") is True, float(began) if is_time else 0.0)


def owner_of(folder: Path) -> JournalOwner:
    """Who writes the journal in this folder; empty if its first frame cannot be read."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        for path, tag in journal_files(folder)[:1]:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                frame = frames.FrameScan(frames.OpenFile(file), tag).first()
            finally:
                os.close(file)
            if frame is not None and frame.kind == frames.ABOUT:
                return JournalOwner.from_json(json.loads(frame.index))
    return JournalOwner()


def has_ended(folder: Path) -> bool:
    """Whether the last bytes of a journal are those of its END frame."""
    with suppress(OSError):
        for path, tag in journal_files(folder)[-1:]:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                last = frames.last_bytes(tag)
                size = os.fstat(file).st_size
                return size > len(last) and os.pread(file, len(last), size - len(last)) == last
            finally:
                os.close(file)
    return False


def state_of(place: JournalPlace) -> State:
    """How a journal is getting on now."""
    return "ended" if has_ended(place.path) else state_of_owner(place.path, owner_of(place.path))


def is_over(place: JournalPlace) -> bool:
    """Whether nobody can write to a journal any more: it has ended, or its process is known to be dead.

    That nobody holds its lock is not enough here: it may be a copy of a journal that is written elsewhere.
    """
    process = owner_of(place.path).process
    return has_ended(place.path) or (process is not None and process.is_alive() is False)


def state_of_owner(folder: Path, writer: JournalOwner) -> State:
    """How a journal without an end is getting on."""
    alive = writer.process.is_alive() if writer.process is not None else None
    if alive is False:
        return "killed"
    held = is_locked(folder)
    if held:
        return "running"
    is_exact = writer.has_lock and writer.process is not None and writer.process.is_on_this_machine
    if held is False and is_exact:
        return "killed"
    return "running" if alive else "unknown"


def is_locked(folder: Path) -> bool | None:
    """Whether a process holds the lock of the last file of a journal; None if that cannot be known."""
    try:
        for path, _ in journal_files(folder)[-1:]:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            finally:
                os.close(file)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
