"""Ranks: who this process is among others, and one file made of the journals of all. There is no collective here."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from insitu.store.compact import compact
from insitu.store.parts import is_live, journal_files, rank_folders

POLL = 0.05


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
    end = time.monotonic() + patience
    while not _all_ended(parts, ranks) and time.monotonic() < end:
        time.sleep(POLL)
    return compact(parts, target, compression=compression, overwrite=overwrite)


def _all_ended(parts: Path, ranks: int) -> bool:
    folders = rank_folders(parts)
    if len(folders) < ranks:
        return False
    return not any(is_live(path) for folder in folders.values() for path, _ in journal_files(folder)[-1:])
