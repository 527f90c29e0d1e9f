"""What it costs to write a run: the journal against a raw file, and the way from the journal to the file of the run."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import merging
from benchmarks.measure import Case, Effort, Row, at_most, in_turn
from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.run.merge import merge_journals

# How many values a step has, their bytes, the steps of one measurement, and what the journal may cost.
SIZES = [("200 × 256 B", 200, 256, 200, 15.0), ("40 × 64 KiB", 40, 2**16, 10, 2.5), ("4 × 4 MiB", 4, 2**22, 4, 2.5)]


def rows(effort: Effort) -> Iterator[Row]:
    """Each size of a step, written, written again with nothing changed, and made into a file."""
    with tempfile.TemporaryDirectory() as folder:
        for name, count, size, steps, limit in SIZES:
            yield from written(Path(folder), name, values(count, size), steps, limit, effort.repeats(25))
            yield compacted(Path(folder), name, values(count, size), effort)
    yield from merging.rows(effort)


def values(count: int, size: int) -> list[Any]:
    """The values of a step."""
    numbers = np.random.default_rng(0)
    return [numbers.standard_normal(size // 4, np.float32) for _ in range(count)]


def entries(arrays: list[Any]) -> list[Entry]:
    """What the journal is given of them."""
    return [
        (f"layers.{number}.forward.x", 0, "float32", array.shape, array.view(np.uint8))
        for number, array in enumerate(arrays)
    ]


def written(folder: Path, name: str, arrays: list[Any], steps: int, limit: float, repeats: int) -> Iterator[Row]:
    """A step in the journal, against the same bytes in one write to a file."""
    raw, journal, number = Raw(folder / "raw", arrays), Written(folder / "parts", arrays), iter(range(10**9))

    def changed() -> None:
        next_number = next(number)
        for array in arrays:
            array[0] = next_number

    def case(write: Callable[[], object], change: Callable[[], object], begin: Callable[[], object]) -> Case:
        def several() -> None:
            for _ in range(steps):
                change()
                write()

        return Case(several, before=begin)

    cases = {
        "changing": case(lambda: None, changed, lambda: None),
        "raw": case(raw.write, changed, raw.begin),
        "journal": case(journal.write, changed, journal.begin),
        "unchanged": case(journal.write, lambda: None, journal.begin),
    }
    times = in_turn(cases, repeats)
    raw.end()
    journal.end()
    yield Row(f"journal / raw file, {name} a step", times.overhead("journal", "raw", "changing"), at_most(limit))
    yield Row(f"the same with nothing changed, {name}", times.ratio("unchanged", "raw"))


class Raw:
    """The values of a step in one write to a file."""

    def __init__(self, path: Path, arrays: list[Any]) -> None:
        self._path, self._arrays, self._file = path, arrays, -1

    def begin(self) -> None:
        """A new file: writing to one that is there costs less."""
        self.end()
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def write(self) -> None:
        """A step."""
        os.write(self._file, b"".join(self._arrays))

    def end(self) -> None:
        """Remove it."""
        if self._file >= 0:
            os.close(self._file)
            self._path.unlink()
        self._file = -1


class Written:
    """The values of a step in a journal."""

    def __init__(self, path: Path, arrays: list[Any]) -> None:
        self._path, self._entries = path, entries(arrays)
        self._journal: JournalWriter | None = None
        self._step = 0

    def begin(self) -> None:
        """A new journal."""
        self.end()
        self._journal = JournalWriter(self._path, sync=1000.0)

    def write(self) -> None:
        """A step."""
        assert self._journal is not None
        self._journal.step(self._step, 0.0, self._entries)
        self._step += 1

    def end(self) -> None:
        """Remove it."""
        if self._journal is not None:
            self._journal.close()
            shutil.rmtree(self._path)
        self._journal = None


def compacted(folder: Path, name: str, arrays: list[Any], effort: Effort) -> Row:
    """The time to make the file of a run of 200 MB."""
    size = sum(array.nbytes for array in arrays)
    steps, seconds = 200_000_000 // size, []
    for _ in range(effort.repeats(3)):
        with JournalWriter(folder / "run.h5.parts") as journal:
            for step in range(steps):
                for array in arrays:
                    array[0] = step
                journal.step(step, 0.0, entries(arrays))
        begin = time.perf_counter()
        merge_journals(folder / "run.h5.parts", folder / "run.h5")
        seconds.append(time.perf_counter() - begin)
        (folder / "run.h5").unlink()
    speed = steps * size / 1e6 / sorted(seconds)[len(seconds) // 2]
    return Row(f"200 MB of journals to a file, {name}", seconds, unit="s", note=f"{speed:.0f} MB/s")
