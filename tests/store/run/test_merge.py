"""The file of a run is made stretch by stretch, and holds what the journals hold."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.amount import amount
from tests.store.recorded import tensor

import insitu
from insitu.errors import StoreError
from insitu.store.journal import frames
from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run

Row = tuple[int, int, int, float, bytes]


def rows_of(run: Run) -> dict[str, list[Row]]:
    found = {}
    for name in run:
        series = run[name]
        values = [value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode() for value in series]
        columns = (series.steps.tolist(), series.ranks.tolist(), series.calls.tolist(), series.times.tolist(), values)
        found[name] = list(zip(*columns, strict=True))
    return found


def random_entries(dice: random.Random) -> list[Entry]:
    """Values of few variables, which often are what they were."""
    entries = []
    for number in range(dice.randrange(6)):
        value = np.full(dice.choice([2, 2, 2, 3]), dice.randrange(2), np.float32)
        entries += [tensor(f"v{number % 4}", call, value) for call in range(dice.choice([1, 1, 2]))]
        if dice.random() < 0.3:
            entries.append((f"v{number % 4}", 0, None, (), dice.choice([None, "word", 3])))
    return list({(entry[0], entry[2], entry[1]): entry for entry in entries}.values())


def write_run(parts: Path, dice: random.Random) -> None:
    for rank in range(dice.randrange(1, 4)):
        step = 0
        with JournalWriter(parts, rank, {"world_size": 3}, roll=dice.choice([300, 2000, 10**6])) as journal:
            for _ in range(dice.randrange(12)):
                journal.step(step, float(step) + rank / 10, random_entries(dice))
                step += dice.choice([1, 1, 1, 0, -2])


def damage(parts: Path, dice: random.Random) -> None:
    path = dice.choice(sorted(parts.rglob("*.journal")))
    spoiled = bytearray(path.read_bytes())
    spoiled[dice.randrange(len(spoiled))] ^= 1 << dice.randrange(8)
    path.write_bytes(spoiled)


@pytest.mark.parametrize("stretch", [1, 7, 10**6])
def test_the_file_holds_what_the_journals_hold(tmp_path: Path, monkeypatch: Any, stretch: int) -> None:
    monkeypatch.setattr("insitu.store.run.run_file_writer.BATCH", stretch)
    monkeypatch.setattr("insitu.store.run.journal_survey.BATCH", stretch)
    for seed in range(amount(25, 1000)):
        dice = random.Random(seed)
        parts, target = tmp_path / f"{seed}.h5.parts", tmp_path / f"{seed}.h5"
        write_run(parts, dice)
        if seed % 3 == 0:
            damage(parts, dice)
        with Run.open(parts) as run:
            journals, missing = rows_of(run), run.missing
        merge_journals(parts, target, keep_parts=True)
        with Run.open(target) as run:
            assert (rows_of(run), run.missing) == (journals, missing), seed


def test_steps_that_go_backwards_are_read_in_order(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts) as journal:
        for step, value in [(5, 1.0), (3, 1.0), (4, 2.0)]:
            journal.step(step, 0.0, [tensor("x", 0, np.float32(value))])
    merge_journals(parts, tmp_path / "run.h5")
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["x"].steps.tolist() == [3, 4, 5] and run["x"].values.tolist() == [1.0, 2.0, 1.0]


def test_a_large_value_is_copied_in_pieces(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.journal.entry_table._LARGE", 1000)
    monkeypatch.setattr("insitu.store.journal.entry_table._BLOCK", 300)
    parts, numbers = tmp_path / "run.h5.parts", np.random.default_rng(0)
    large, small = [numbers.random(500) for _ in range(3)], [numbers.random(2) for _ in range(3)]
    with JournalWriter(parts) as journal:
        for step in range(3):
            journal.step(step, 0.0, [tensor("a", 0, small[step]), tensor("b", 0, large[step])])
    for compression in ("none", "gzip"):
        merge_journals(parts, tmp_path / f"{compression}.h5", compression=compression, keep_parts=True)
        with insitu.load(tmp_path / f"{compression}.h5") as run:
            assert run.complete
            assert (run["b"].values == large).all() and (run["a"].values == small).all()
    damage_first(parts, large[1].tobytes()[:16])
    merge_journals(parts, tmp_path / "damaged.h5")
    with insitu.load(tmp_path / "damaged.h5") as run:
        assert run["b"].steps.tolist() == [0, 2] and run.missing == ["rank 0: step 1: 1 value is lost"]


def damage_first(parts: Path, data: bytes) -> None:
    (path,) = parts.rglob("*.journal")
    whole = path.read_bytes()
    at = whole.index(data)
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])


def test_full_disk_is_detected_before_merge_writes(tmp_path: Path, monkeypatch: Any) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts) as journal:
        journal.step(0, 0.0, [tensor("x", 0, np.zeros(1000))])
    real = os.statvfs(tmp_path)
    small = os.statvfs_result((*real[:3], 0, 0, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: small)
    monkeypatch.setattr(os, "posix_fallocate", lambda *args: pytest.fail("something was written"))
    with pytest.raises(StoreError, match=r"takes up to .* beside the 8\..* kB of its journals, and 0 B are free"):
        merge_journals(parts, tmp_path / "run.h5")
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5.parts"]
    assert not list(parts.rglob("*.part"))


def test_merge_reports_progress_for_every_byte(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.run_file_writer.BATCH", 1)
    parts = tmp_path / "run.h5.parts"
    for rank in range(2):
        with JournalWriter(parts, rank) as journal:
            for step in range(3):
                journal.step(step, 0.0, [tensor("x", 0, np.full(10, step))])
    told: list[tuple[str, int, int]] = []
    merge_journals(parts, tmp_path / "run.h5", on_progress=lambda *said: told.append(said))
    merging = [(done, total) for what, done, total in told if what == "merging"]
    assert merging == [(80 * number, 480) for number in range(7)]
    assert [what for what, *_ in told] == ["reading"] * 2 + ["merging"] * 7


MEMORY = """
import resource, sys
from pathlib import Path
import h5py
from insitu.store.run import journal_survey, merge, run_file_writer
run_file_writer.BATCH = journal_survey.BATCH = 2**12
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
merge.merge_journals(Path(sys.argv[1]), Path(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_number_of_values(tmp_path: Path) -> None:
    """400,000 values: 40 bytes of index for each alone were 16 MB, and a row for each used to take 400 bytes."""
    parts = tmp_path / "run.h5.parts"
    numbers = np.arange(400_000, dtype=np.float32).reshape(400, 1000)
    with JournalWriter(parts, sync=1000.0) as journal:
        for step, values in enumerate(numbers):
            data = values.tobytes()
            entries = [(f"v{n}", 0, "float32", (), data[4 * n : 4 * n + 4]) for n in range(1000)]
            journal.step(step, 0.0, entries)
    command = [sys.executable, "-c", MEMORY, str(parts), str(tmp_path / "run.h5")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 90_000, "kilobytes"
    with insitu.load(tmp_path / "run.h5") as run:
        assert (run["v7"].values == numbers[:, 7]).all()


def test_repeat_of_a_damaged_value_is_lost(tmp_path: Path) -> None:
    """A step has three frames: A, then B in its place, then B again. The one with B is damaged."""
    parts, values = tmp_path / "run.h5.parts", [np.full(50, number, np.float64) for number in (1.0, 2.0)]
    more = frames.MORE | frames.AGAIN
    with JournalWriter(parts) as journal:
        journal.step(0, 0.0, [tensor("x", 0, values[0])], flags=frames.OPEN, ticket=1)
        journal.step(0, 0.0, [tensor("x", 0, values[1])], flags=more | frames.OPEN, ticket=2)
        journal.step(0, 0.0, [tensor("x", 0, values[1])], flags=more, ticket=3)
    merge_journals(parts, tmp_path / "whole.h5", keep_parts=True)
    with insitu.load(tmp_path / "whole.h5") as run:
        assert run.complete and (run["x"].values == values[1]).all() and len(run.steps) == 1
    damage_index(parts, 1)
    merge_journals(parts, tmp_path / "damaged.h5")
    with insitu.load(tmp_path / "damaged.h5") as run:
        assert "x" not in run and not run.complete


def damage_index(parts: Path, number: int) -> None:
    """Flip a bit in the index of one of the steps."""
    (path,) = parts.rglob("*.journal")
    whole = bytearray(path.read_bytes())
    with path.open("rb") as file:
        scan = frames.FrameScan(frames.OpenFile(file.fileno()), bytes(whole[8:16]))
        steps = [frame for frame in scan.frames() if frame.kind & frames.KIND == frames.STEP]
    whole[steps[number].start - 1] ^= 1
    path.write_bytes(whole)


def test_an_event_after_a_step_does_not_let_the_step_be_written_again(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts) as journal:
        for _ in range(2):
            journal.step(0, 0.0, [tensor("x", 0, np.zeros(2))], ticket=7)
            journal.event("trouble", "the disk was full")
    with Run.open(parts) as run:
        assert run["x"].steps.tolist() == [0]
