"""Ranks: who this process is among others, and one file made of the journals of all. There is no collective here."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from insitu.errors import StoreError
from insitu.store.compact import compact
from insitu.store.parts import is_live, journal_files, rank_folders

POLL = 0.05
LATEST = 2.0  # seconds after the end of rank 0 in which a rank that has not begun to record may still do so


def current_rank() -> int:
    """The rank of this process, 0 if it is alone."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return _number("RANK", 0)


def world_size() -> int:
    """How many processes there are."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return max(1, _number("WORLD_SIZE", 1))


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else default


def merge(parts: Path, target: Path, *, ranks: int, patience: float, compression: str, overwrite: bool) -> list[str]:
    """Make one file of the journals, once all ranks have ended or the patience has; what is missing is given back.

    A rank that never came, or was killed, is listed and not awaited for longer.
    """
    start = time.monotonic()
    while not _all_ended(parts, ranks) and time.monotonic() < start + patience:
        if time.monotonic() > start + LATEST and not _any_live(parts):
            break  # a rank that has not begun by now does not record
        time.sleep(POLL)
    return compact(parts, target, compression=compression, overwrite=overwrite)


def _all_ended(parts: Path, ranks: int) -> bool:
    return len(rank_folders(parts)) >= ranks and not _any_live(parts)


def _any_live(parts: Path) -> bool:
    return any(map(is_live, rank_folders(parts).values()))


def clear(parts: Path, rank: int) -> None:
    """Remove what an earlier run has left of the journal of this rank; one that still goes on is not touched."""
    folder = rank_folders(parts).get(rank) if parts.is_dir() else None
    if folder is None:
        return
    if is_live(folder):
        raise StoreError(f"another run is writing to {str(parts)!r}: give this one a file of its own")
    for path, _ in journal_files(folder):
        path.unlink()
    folder.rmdir()
