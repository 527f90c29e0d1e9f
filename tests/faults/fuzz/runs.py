"""Runs that say anything of themselves, or whose columns do, with checksums that are right."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tests.faults.fuzz.odd import NUMBERS, replaced
from tests.faults.fuzz.seeds import Seed
from xxhash import xxh3_64_intdigest


def make_forged(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """Another value somewhere in `/about`, or in columns."""
    shutil.copyfile(seed.path, path)
    with h5py.File(path, "r+") as file:
        said = json.loads(file["about"][:].tobytes())
        for _ in range(dice.choice([1, 1, 2])):
            if dice.random() < 0.5:
                said = replaced(said, dice)
            else:
                _column(file, said, dice)
        write_about(file, said)
    return False


def write_about(file: h5py.File, said: Any) -> None:
    """Put this in the place of what the file says, with its checksum."""
    text = np.frombuffer(json.dumps(said).encode(), np.uint8)
    del file["about"]
    file["about"] = text
    file.attrs["checksum"] = np.uint64(xxh3_64_intdigest(text.tobytes()))


def _column(file: h5py.File, said: Any, dice: random.Random) -> None:
    """Other numbers in one column."""
    columns: list[tuple[str, Any, str]] = []
    file["vars"].visititems(lambda name, item: columns.append((f"vars/{name}", item, name.rsplit("/", 1)[-1])))
    where, dataset, name = dice.choice([column for column in columns if isinstance(column[1], h5py.Dataset)])
    values = dataset[()]
    if not values.size or values.dtype.kind not in "iuf":
        return
    flat = values.reshape(-1)
    for _ in range(dice.choice([1, 1, 3])):
        wanted = dice.choice([*NUMBERS, int(flat[dice.randrange(len(flat))]) if np.isfinite(flat).all() else 0])
        with np.errstate(all="ignore"):
            odd = dice.choice([np.nan, np.inf, 1e300, wanted]) if flat.dtype.kind == "f" else wanted
            flat[dice.randrange(len(flat))] = np.array(odd).astype(flat.dtype)
    dataset[...] = values
    _sum(file, said, where, name, values)


def _sum(file: h5py.File, said: Any, where: str, name: str, values: Any) -> None:
    """Let `/about` say the checksum that the column has now."""
    owner = file[where].parent.attrs["name"]
    every = said.get("variables") if isinstance(said, dict) else None
    for described in every if isinstance(every, list) else ():
        columns = described.get("columns") if isinstance(described, dict) else None
        same = isinstance(columns, dict) and str(described.get("name")).encode("utf-8", "replace") == owner
        if same and name in columns:
            columns[name] = xxh3_64_intdigest(values.tobytes())
