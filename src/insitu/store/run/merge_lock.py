"""Lets one process at a time make the file of a run or remove journals: a marker shows that it does.

Some file systems have no locks. So each process puts a marker of its own into the folder, looks for other markers,
and removes its own if the process of another marker may still run.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from insitu.errors import StoreError
from insitu.operating_system import CREATE, READ_NO_LINK
from insitu.store.journal.parts import check_not_link
from insitu.store.journal.process import Process

PATIENCE = 5.0  # seconds for which one process waits for another
_MARKER = re.compile(r"merging-[0-9a-f]{16}\.json")


@contextmanager
def merge_lock(parts: Path) -> Iterator[None]:
    """A block in which no other process merges the folder; raises if another process does for `PATIENCE` seconds."""
    check_not_link(parts)
    deadline = time.monotonic() + PATIENCE
    while (marker := _marker_alone(parts)) is None:
        if time.monotonic() > deadline:
            raise StoreError(_busy_text(parts))
        time.sleep(random.uniform(0.02, 0.1))
    try:
        yield
    finally:
        with suppress(OSError):
            marker.unlink()
        with suppress(OSError):  # the folder is not empty
            parts.rmdir()


def _marker_alone(parts: Path) -> Path | None:
    """Put a marker into the folder; None if another process has one there."""
    marker = parts / f"merging-{os.urandom(8).hex()}.json"
    passing = marker.with_suffix(".part")
    try:
        try:
            _write(passing, json.dumps(Process.current().to_json()).encode())
            with suppress(FileNotFoundError):  # the process that merged before has removed the folder: try again
                os.rename(passing, marker)  # a rename, so that no process sees an empty marker
        finally:
            with suppress(OSError):
                passing.unlink()
    except OSError as error:
        raise StoreError(f"{str(parts)!r} cannot be written: {error.strerror}") from error
    if not _others(parts, marker) and marker.exists():
        return marker
    with suppress(OSError):
        marker.unlink()
    return None


def _write(path: Path, content: bytes) -> None:
    file = os.open(path, CREATE, 0o600)
    try:
        os.write(file, content)
    finally:
        os.close(file)


def _others(parts: Path, own: Path | None) -> list[Path]:
    """The markers of processes that may still merge; those of dead processes are removed."""
    found = []
    for entry in os.scandir(parts):
        path = Path(entry.path)
        if not _MARKER.fullmatch(entry.name) or path == own:
            continue
        process = _process_of(path)
        if process is not None and process.is_alive() is False:
            with suppress(OSError):
                path.unlink()
        else:
            found.append(path)
    return found


def _process_of(marker: Path) -> Process | None:
    try:
        file = os.open(marker, READ_NO_LINK)
        try:
            return Process.from_json(json.loads(os.read(file, 4096)))
        finally:
            os.close(file)
    except (OSError, ValueError):
        return None


def _busy_text(parts: Path) -> str:
    for marker in _others(parts, None):
        who = _process_of(marker)
        return (
            f"{str(parts)!r} is being merged by {who or 'another process'}: try again when it has ended. If you know"
            f" that it no longer runs, remove {marker.name!r} there"
        )
    return f"{str(parts)!r} is being merged by another process: try again"
