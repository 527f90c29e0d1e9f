"""A process that writes runs and is killed: `python -m tests.faults.writer FOLDER MODE SEED…`, one run for each seed.

A child does the writing. It kills itself in the middle of a write, or is killed after a random time. Before each step
and after it, it notes the step in the file `acknowledged`, so that the test knows what must be there.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.run.merge import merge_journals

STEPS = 40
CALLS = {"journal": ("writev",), "compact": ("pwritev", "fsync", "link", "unlink", "rmdir", "open", "mkdir")}


def value(step: int, name: int) -> np.ndarray[Any, Any]:
    """What is recorded: it tells where it belongs, and has another shape in each step."""
    return np.full((name + 1, step % 5), 1000 * step + name, np.int64)


def entries(step: int) -> list[Entry]:
    """Variables come late, one more in each step; `same` changes seldom."""
    found: list[Entry] = []
    for name in range(min(step // 2 + 1, 12)):
        array = value(step, name)
        found.append((f"x.{name}", 0, "int64", array.shape, array.reshape(-1).view(np.uint8)))
    same = np.full(300, step // 7, np.float64)
    return [*found, ("same", 0, "float64", (300,), same.view(np.uint8)), ("text", 0, None, (), f"step {step}")]


def kill_at(calls: tuple[str, ...], number: int, dice: random.Random) -> None:
    """Let the n-th of these calls of the system be the last, done in part."""
    left = number

    def wrap(name: str, real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left:
                return real(*args, **options)
            if name in ("writev", "pwritev"):
                whole = b"".join(args[1])
                real(args[0], [whole[: dice.randrange(len(whole) + 1)]], *args[2:])
            elif dice.random() < 0.5:
                real(*args, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        return call

    for name in calls:
        setattr(os, name, wrap(name, getattr(os, name)))


def work(folder: Path, mode: str, dice: random.Random, by_count: bool) -> None:
    """Write a run; in the mode "compact" the journal is whole, and making the file of it is what dies."""
    parts = folder / "run.h5.parts"
    notes = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    journal = JournalWriter(parts, about={"world_size": 1}, roll=20_000, sync=0.005)
    if mode == "journal" and by_count:
        kill_at(CALLS[mode], dice.randrange(1, STEPS + 8), dice)
    for step in range(STEPS):
        journal.step(step, 0.0, entries(step))
        os.write(notes, f"{step}\n".encode())
    journal.close()
    if mode == "compact":
        if by_count:
            kill_at(CALLS[mode], dice.randrange(1, 110), dice)
        merge_journals(parts, folder / "run.h5", compression=dice.choice(["none", "gzip"]))
    os.write(notes, b"done\n")


def run(folder: Path, mode: str, seed: int) -> None:
    """One child, until it is dead."""
    dice = random.Random(f"{mode} {seed}")
    by_count = dice.random() < 0.7
    child = os.fork()
    if not child:
        try:
            work(folder, mode, dice, by_count)
            os._exit(0)
        finally:
            os._exit(1)
    if not by_count:
        time.sleep(dice.random() * 0.08)
        os.kill(child, signal.SIGKILL)
    if (status := os.waitpid(child, 0)[1]) not in (0, signal.SIGKILL):
        sys.exit(f"{mode} {seed}: the child ended with {status}")


if __name__ == "__main__":
    for seed in sys.argv[3:]:
        place = Path(sys.argv[1]) / seed
        place.mkdir()
        run(place, sys.argv[2], int(seed))
