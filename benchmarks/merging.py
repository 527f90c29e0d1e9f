"""What it takes to make one file of the journals of many ranks: time, and the memory of the process that does it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import Effort, Row
from insitu.store.journal.journal_writer import JournalWriter

RANKS = (2, 64, 1000)
VARIABLES = 50
VALUES = 2_000_000  # of all ranks, 4 bytes each: what is large is their number

MERGE = """
import json, resource, sys, time
from pathlib import Path
from insitu.store.run.merge import merge_journals
import h5py
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
merge_journals(Path(sys.argv[1]), Path(sys.argv[2]))
seconds = time.perf_counter() - began
print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""


def rows(effort: Effort) -> Iterator[Row]:
    """The same number of small values from 2, 64 and 1,000 ranks."""
    values = VALUES if effort.name == "full" else VALUES // 10
    for ranks in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            seconds, memory = merged(Path(folder), ranks, values)
        name = f"{values:,} small values of {ranks:,} ranks to a file"
        yield Row(name, [seconds], unit="s", note=f"{memory:.0f} MB of memory, {values / seconds / 1e6:.2f} million/s")


def merged(folder: Path, ranks: int, values: int) -> tuple[float, float]:
    """Seconds and megabytes that a process of its own takes."""
    parts = folder / "run.h5.parts"
    for rank in range(ranks):
        write(parts, rank, ranks, steps=values // ranks // VARIABLES)
    command = [sys.executable, "-c", MERGE, str(parts), str(folder / "run.h5")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, memory = json.loads(done.stdout)
    return seconds, memory


def write(parts: Path, rank: int, ranks: int, steps: int) -> None:
    """The journal of a rank, in which every value changes at every step."""
    with JournalWriter(parts, rank, {"world_size": ranks}, sync=1000.0) as journal:
        for step in range(steps):
            numbers = np.arange(VARIABLES, dtype=np.float32) + np.float32(step * ranks + rank)
            entries = [(f"layers.{n}.mean", 0, "float32", (), number.tobytes()) for n, number in enumerate(numbers)]
            journal.step(step, float(step), entries)
