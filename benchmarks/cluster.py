"""`python -m benchmarks.cluster [full|quick|once]`: a run of 256 ranks and 50 GB, read where its journals are.

It measures the time to list, compare and export the run, and the largest memory of the process that does it.

The journals are valid and sparse. Every value is 256 KiB of zeros, which the disk does not store, with its checksum;
one value of the second run differs. Reading a hole is faster than reading a disk: the times are those of the processor.
`export` reads everything, so its run is shorter. `real` measures a smaller run of random values, which take up room.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xxhash import xxh3_128_digest

from benchmarks import report
from benchmarks.measure import Effort, Row, at_most
from insitu.store.address import Address
from insitu.store.format_version import JOURNAL_VERSION
from insitu.store.journal import frames
from insitu.store.journal.declarations import Declarations, json_bytes
from insitu.store.journal.heads import heads_name, heads_of
from insitu.store.journal.journal_state import open_for_reading
from insitu.store.journal.journal_writer import JournalWriter, value_json
from insitu.store.journal.parts import journal_files, place_of, places
from insitu.store.journal.process import Process

RANKS = 256
VARIABLES = 8
ELEMENTS = 2**16  # of a value: 256 KiB
STEPS = {"full": 100, "quick": 10, "once": 1}
REAL_STEPS = {"full": 16, "quick": 2, "once": 1}
REAL_RANKS = 64
MOST_MEMORY = 2**30

COMMAND = """
import contextlib, io, json, resource, sys, time
from insitu.cli import main
began = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    code = main(sys.argv[1:])
seconds = time.perf_counter() - began
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, code]))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took: seconds, seconds of the processor, and the largest memory of its process in bytes."""

    seconds: float
    processor: float
    memory: int
    code: int


def rows(effort: Effort) -> Iterator[Row]:
    """Sparse runs of the full size, then smaller ones with real bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield from sparse(Path(folder), STEPS[effort.name])
    with tempfile.TemporaryDirectory() as folder:
        yield from real(Path(folder), REAL_STEPS[effort.name])


def sparse(folder: Path, steps: int) -> Iterator[Row]:
    """Two runs whose zeros take no room."""
    a, b = folder / "a", folder / "b"
    write_sparse_run(a, "a" * 32, steps)
    write_sparse_run(b, "b" * 32, steps, odd=Odd(rank=RANKS // 2, step=steps - 1, variable=3))
    size = f"{sum(file.stat().st_size for file in a.rglob('*.journal')) / 1e9:.0f} GB of {RANKS} ranks, sparse"
    yield from measured(f"list, {size}", ["show", str(a)], 5.0)
    add_heads(a)
    yield from measured(f"list at an address, {size}", ["show", f"file://{a}"], 5.0)
    yield from measured(f"compare, {size}", ["diff", str(a), str(b)], None, code=1)
    yield from measured(f"compare with itself, {size}", ["diff", str(a), str(a)], None)
    short = folder / "short"
    write_sparse_run(short, "c" * 32, max(1, steps // 20))
    size = f"{sum(file.stat().st_size for file in short.rglob('*.journal')) / 1e9:.1f} GB of {RANKS} ranks, sparse"
    yield from measured(f"export a page, {size}", ["export", str(short), str(folder / "a.html")], None)


def real(folder: Path, steps: int) -> Iterator[Row]:
    """Two runs of random values, as journals and as files."""
    for name in ("a", "b"):
        for rank in range(REAL_RANKS):
            write_real_journal(folder / f"{name}.h5.parts", rank, steps, name * 32, seed=rank)
    stored = sum(file.stat().st_size for file in (folder / "a.h5.parts").rglob("*.journal"))
    size = f"{stored / 1e9:.1f} GB of {REAL_RANKS} ranks, real"
    journals = [str(folder / f"{name}.h5.parts") for name in ("a", "b")]
    yield from measured(f"list journals, {size}", ["show", journals[0]], None)
    yield from measured(f"compare journals, {size}", ["diff", *journals], None, code=1)
    for name in ("a", "b"):
        yield from measured(f"merge {name}, {size}", ["recover", str(folder / f"{name}.h5")], None)
    files = [str(folder / f"{name}.h5") for name in ("a", "b")]
    yield from measured(f"list a file, {size}", ["show", files[0]], None)
    yield from measured(f"compare files, {size}", ["diff", *files], None, code=1)


def measured(name: str, arguments: list[str], most: float | None, *, code: int = 0) -> Iterator[Row]:
    """The time and the memory of a command, in a process of its own."""
    cost = run_command(arguments)
    if cost.code != code:
        raise RuntimeError(f"insitu {' '.join(arguments)} returned {cost.code}")
    target, note = None if most is None else at_most(most), f"{cost.processor:.1f} s of CPU time"
    yield Row(name, [cost.seconds], target, "s", note)
    yield Row(f"memory: {name}", [float(cost.memory)], at_most(MOST_MEMORY), "B")


def run_command(arguments: list[str]) -> Cost:
    """Run `insitu`, and return what it took."""
    command = [sys.executable, "-c", COMMAND, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


@dataclass(frozen=True, slots=True)
class Odd:
    """The one value that is not zeros."""

    rank: int
    step: int
    variable: int


def write_sparse_run(folder: Path, run: str, steps: int, odd: Odd | None = None) -> None:
    """The journals of all ranks."""
    for rank in range(RANKS):
        write_sparse_journal(folder, run, rank, steps, odd if odd is not None and odd.rank == rank else None)


def write_sparse_journal(parts: Path, run: str, rank: int, steps: int, odd: Odd | None) -> None:
    """One journal in which the data of most frames are a hole in the file."""
    folder = place_of(parts, rank, run).path
    folder.mkdir(parents=True)
    tag = os.urandom(8)
    declarations = Declarations()
    known = [declarations.declare(f"layers.{number}", "float32", (ELEMENTS,)) for number in range(VARIABLES)]
    zeros, ones = bytes(4 * ELEMENTS), np.ones(ELEMENTS, np.float32).tobytes()
    digests = {False: xxh3_128_digest(zeros), True: xxh3_128_digest(ones)}
    with open(folder / f"{0:05d}-{tag.hex()}.journal", "wb") as file:
        about = {
            "format_version": JOURNAL_VERSION,
            "rank": rank,
            "time": time.time(),
            "facts": value_json({"world_size": RANKS}),
            "process": Process.current().to_json(),
            "lock": False,
            "declared": declarations.records,
        }
        file.write(frames.MAGIC + tag + frames.head(tag, frames.ABOUT, 0, json_bytes(about), 0))
        for step in range(steps):
            odd_variable = odd.variable if odd is not None and odd.step == step else -1
            entries = np.zeros(VARIABLES, frames.ENTRY)
            for number, (variable, layout, size) in enumerate(known):
                digest = np.void(digests[number == odd_variable])
                entries[number] = (variable, layout, 0, frames.STORED, size, digest)
            index = frames.STEP_HEAD.pack(step, float(step), VARIABLES, 0) + entries.tobytes()
            file.write(frames.head(tag, frames.STEP, step + 1, index, VARIABLES * len(zeros)))
            for number in range(VARIABLES):
                if number == odd_variable:
                    file.write(ones)
                else:
                    file.seek(len(zeros), os.SEEK_CUR)
        end = json_bytes({"time": time.time(), "dropped": 0, "declared": []})
        last = frames.last_bytes(tag)
        file.write(frames.head(tag, frames.END, steps + 1, end, len(last)) + last)


def add_heads(folder: Path) -> None:
    """Put the heads beside the journals, as a rank that sends them does."""
    address = Address.parse(f"file://{folder}")
    for place in places(folder):
        for path, tag in journal_files(place.path):
            with open_for_reading(path) as file:
                heads = heads_of(frames.OpenFile(file), tag)
            address.write(heads_name(f"{path.parent.name}/{path.name}"), heads)


def write_real_journal(parts: Path, rank: int, steps: int, run: str, seed: int) -> None:
    """One journal of random values; the last step of the last rank differs between the runs."""
    numbers = np.random.default_rng(seed)
    with JournalWriter(parts, rank, {"world_size": REAL_RANKS}, run=run, sync=1000.0) as journal:
        for step in range(steps):
            values = numbers.standard_normal((VARIABLES, ELEMENTS), np.float32)
            is_last = step == steps - 1 and rank == REAL_RANKS - 1
            if is_last and run.startswith("b"):
                values[3] += 1
            entries = [
                (f"layers.{number}", 0, "float32", (ELEMENTS,), value.view(np.uint8))
                for number, value in enumerate(values)
            ]
            journal.step(step, float(step), entries)


def main() -> None:
    """Print each number when it is known."""
    name = sys.argv[1] if len(sys.argv) > 1 else "full"
    if name not in STEPS:
        sys.exit(f"{name!r} is not an effort: choose full, quick or once")
    for row in rows(Effort(name)):
        target = f"{row.verdict} {row.target}" if row.target else ""
        print(f"{row.name}: {report.number(row.median, row.unit)}", row.note, target, flush=True)


if __name__ == "__main__":
    main()
