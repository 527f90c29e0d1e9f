"""Mutants by the way they are made. A maker writes one to a path, and says whether what it holds must still be true."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.faults.fuzz import journals, lines, runs, tables
from tests.faults.fuzz.blind import blind
from tests.faults.fuzz.confuse import make_confused
from tests.faults.fuzz.seeds import Seed

Maker = Callable[[Seed, Path, random.Random, int], bool]


def make_blind(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """Damage by chance. Only text has no checksums to tell."""
    target = _copied(seed, path)
    target.write_bytes(blind(target.read_bytes(), seed.others, dice))
    return seed.form != "text"


def make_cut(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """The file cut short, at one length after the other."""
    target = _copied(seed, path)
    whole = target.read_bytes()
    target.write_bytes(whole[: number * 7919 % len(whole)])
    return seed.form != "text"


def _copied(seed: Seed, path: Path) -> Path:
    if seed.path.is_dir():
        shutil.copytree(seed.path, path)
        return path / seed.target.relative_to(seed.path)
    shutil.copyfile(seed.path, path)
    return path


_FORGERS: dict[str, Maker] = {
    **{"trace": tables.make_forged, "packed": tables.make_forged, "run": runs.make_forged, "gzip": runs.make_forged},
    **{"journal": journals.make_forged, "text": lines.make_forged},
}


def make_forged(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """Wrong on purpose, with checksums that are right."""
    return _FORGERS[seed.form](seed, path, dice, number)


MAKERS: dict[str, Maker] = {"blind": make_blind, "cut": make_cut, "forged": make_forged, "confused": make_confused}
