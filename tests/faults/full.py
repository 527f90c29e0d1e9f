"""A process whose disk is full, or that may not write large files: `python -m tests.faults.full FOLDER WHAT BYTES`.

It goes on, as a training run would, and prints as JSON what it saw.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

import insitu
from insitu.errors import StoreError
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.merge import merge_journals


def step(journal: JournalWriter, number: int) -> bool:
    values = np.full(5000, number, np.float64)
    return journal.step(number, 0.0, [("x", 0, "float64", (5000,), values.view(np.uint8))])


def right(path: Path) -> list[int]:
    """The steps of a run, if every value is the right one."""
    with insitu.load(path) as run:
        if "x" not in run:
            return []
        assert (run["x"].values == run["x"].steps[:, None]).all()
        found: list[int] = run["x"].steps.tolist()
        return found


def full_journal(folder: Path) -> dict[str, Any]:
    """The disk is full while the run goes on."""
    written, errors = [], []
    journal = JournalWriter(folder / "run.h5.parts", sync=0.01)
    for number in range(60):
        try:
            if step(journal, number):
                written.append(number)
        except StoreError as error:
            errors.append(str(error))
    dropped, closing = journal.dropped, ""
    try:
        journal.close()
    except StoreError as error:
        closing = str(error)
    seen = right(folder / "run.h5")
    return {"written": written, "seen": seen, "errors": errors, "dropped": dropped, "closing": closing}


def full_compaction(folder: Path, limit: int) -> dict[str, Any]:
    """The disk is full when the file is made; the limit on files comes only then."""
    with JournalWriter(folder / "run.h5.parts", roll=100_000) as journal:
        for number in range(15):
            step(journal, number)
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    errors = []
    for compression in ("none", "gzip", "none"):
        try:
            merge_journals(folder / "run.h5.parts", folder / "run.h5", compression=compression)
        except StoreError as error:
            errors.append(str(error))
    left = sorted(path.name for path in folder.rglob("*") if path.name.startswith("compact") or path.suffix == ".h5")
    return {"errors": errors, "left": left, "seen": right(folder / "run.h5")}


if __name__ == "__main__":
    place, what, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if what == "journal":
        if size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        print(json.dumps(full_journal(place)))
    else:
        print(json.dumps(full_compaction(place, size)))
