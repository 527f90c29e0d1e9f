"""Files of several processes: each rank of a job writes one of its own."""

from __future__ import annotations

import os
import re
from glob import escape
from pathlib import Path


def rank() -> int | None:
    """The number of this process among those of a job; None if it is alone."""
    if (_number("WORLD_SIZE") or 1) > 1:
        return _number("RANK")
    return None


def rank_file(path: str, suffixes: tuple[str, ...], number: int | None = None) -> str:
    """The file of this process: `run.rank0.h5` for `run.h5`, if it is one of several; another one after a restart.

    `number` is its rank, if that is known better than by the environment.

    >>> rank_file("run.h5", (".h5",)) == ("run.h5" if rank() is None else f"run.rank{rank()}.h5")
    True
    """
    number = rank() if number is None else number
    if number is None:
        return path
    restarts = _number("TORCHELASTIC_RESTART_COUNT")
    added = f".rank{number}" + (f".restart{restarts}" if restarts else "")
    found = Path(path)
    longest = sorted(suffixes, key=len, reverse=True)
    suffix = next((suffix for suffix in longest if found.name.lower().endswith(suffix)), "")
    stem = found.name[: len(found.name) - len(suffix)]
    return str(found.with_name(f"{stem}{added}{found.name[len(stem) :]}"))


def files_of_ranks(path: str) -> list[Path]:
    """The files that the ranks of a job wrote in place of this one, in the order of the ranks; of restarts, the last.

    >>> files_of_ranks("no/such/run.h5")
    []
    """
    found = Path(path)
    last: dict[int, tuple[int, Path]] = {}
    for file in found.parent.glob(f"{escape(found.stem)}.rank*{escape(found.suffix)}"):
        match = re.fullmatch(r"\.rank(\d+)(?:\.restart(\d+))?", file.name[len(found.stem) : -len(found.suffix) or None])
        if match is None:
            continue
        number, restart = int(match[1]), int(match[2] or 0)
        if number not in last or last[number][0] < restart:
            last[number] = (restart, file)
    return [last[number][1] for number in sorted(last)]


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    if text.isdecimal():
        return int(text)
    return None
