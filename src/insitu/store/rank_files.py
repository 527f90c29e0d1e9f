"""Files of several processes: each rank of a job writes one of its own."""

from __future__ import annotations

import os
import re
from glob import escape
from pathlib import Path
from typing import NamedTuple


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


class RankFile(NamedTuple):
    """The file that one rank of a job wrote, after so many restarts."""

    rank: int
    restart: int
    file: Path


def files_of_ranks(path: str) -> list[Path]:
    """The files that the ranks of a job wrote in place of this one, in the order of the ranks; of restarts, the last.

    >>> files_of_ranks("no/such/run.h5")
    []
    """
    whole = Path(path)
    beside = whole.parent.glob(f"{escape(whole.stem)}.rank*{escape(whole.suffix)}")
    found = sorted(filter(None, [_rank_file(whole, file) for file in beside]))
    last = {each.rank: each.file for each in found}
    return list(last.values())


def _rank_file(whole: Path, file: Path) -> RankFile | None:
    """What the name of a file says about the rank that wrote it; None if it has another form."""
    added = file.name.removeprefix(whole.stem).removesuffix(whole.suffix)
    match = re.fullmatch(r"\.rank(\d+)(?:\.restart(\d+))?", added)
    if match is None:
        return None
    return RankFile(int(match[1]), int(match[2] or 0), file)


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    if text.isdecimal():
        return int(text)
    return None
