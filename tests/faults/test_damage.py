"""Journals that were cut, overwritten or forged: no wrong value, and reading goes on behind the damage."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.amount import amount
from tests.store.recorded import Expected, record
from xxhash import xxh3_64_intdigest

from insitu.errors import StoreError
from insitu.store.journal import frames
from insitu.store.run.run import Run

Key = tuple[str, int, int, int]


def known(expected: Expected) -> dict[Key, Any]:
    return {(name, *row[:3]): row[3] for name, rows in expected.rows.items() for row in rows}


def found_in(run: Run, truth: dict[Key, Any]) -> set[Key]:
    """The rows that a run has; each must be the true one."""
    found = set()
    for name in run:
        series = run[name]
        columns = (series.steps.tolist(), series.ranks.tolist(), series.calls.tolist(), series.values)
        for step, rank, call, value in zip(*columns, strict=True):
            key = (name.removesuffix("@uint16"), step, rank, call)
            key = key if getattr(value, "dtype", None) != np.uint16 else ("forward.x@uint16", *key[1:])
            true = truth[key]
            if isinstance(true, np.ndarray):
                assert (value.dtype, value.shape, value.tobytes()) == (true.dtype, true.shape, true.tobytes())
            else:
                assert (type(value), value) == (type(true), true)
            found.add(key)
    return found


@pytest.fixture
def damaged(tmp_path: Path) -> Any:
    """The folder, what it holds, and the file to spoil: the journal of rank 0."""
    truth = known(record(tmp_path / "run.h5.parts", steps=5))
    (path,) = (tmp_path / "run.h5.parts" / "rank00000").iterdir()
    return tmp_path / "run.h5.parts", truth, path


def ends(path: Path) -> list[int]:
    """Where each step ends."""
    file = os.open(path, os.O_RDONLY)
    scan = frames.FrameScan(frames.OpenFile(file), path.read_bytes()[8:16])
    found = [frame.start + frame.length for frame in scan.frames() if frame.kind == frames.STEP]
    os.close(file)
    return found


@pytest.mark.slow
def test_journal_cut_at_any_byte_keeps_earlier_steps(damaged: Any) -> None:
    parts, truth, path = damaged
    steps = ends(path)
    size = path.stat().st_size
    for cut in range(size - 1, -1, -amount(3, 1)):
        os.truncate(path, cut)
        run = Run.open(parts)
        found = found_in(run, truth)
        kept = sum(end <= cut for end in steps)
        assert found == {key for key in truth if key[2] == 1 or key[1] < kept}
        assert run.last_committed[0] == (kept - 1 if kept else None) and not run.complete
        run.close()


@pytest.mark.slow
def test_flipped_bits_give_no_wrong_value(damaged: Any) -> None:
    parts, truth, path = damaged
    whole, dice, least = path.read_bytes(), random.Random(1), len(truth)
    for _ in range(amount(600, 3000)):
        spoiled = bytearray(whole)
        for _ in range(dice.choice([1, 1, 1, 8])):
            spoiled[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        path.write_bytes(spoiled)
        with Run.open(parts) as run:
            found = found_in(run, truth)
            assert len(found) == len(truth) or not run.complete
            assert {key for key in truth if key[2] == 1} <= found
            least = min(least, len(found))
    assert least < len(truth)


@pytest.mark.slow
def test_damaged_tails_lose_nothing_before_them(damaged: Any) -> None:
    parts, truth, path = damaged
    whole, dice, steps = path.read_bytes(), random.Random(2), ends(path)
    for _ in range(amount(600, 3000)):
        begin = dice.randrange(16, len(whole))
        tail = dice.choice([os.urandom(dice.randrange(200)), bytes(dice.randrange(500)), whole[: dice.randrange(300)]])
        path.write_bytes(whole[:begin] + tail)
        with Run.open(parts) as run:
            found = found_in(run, truth)
        assert {key for key in truth if key[2] == 1 or key[1] < sum(end <= begin for end in steps)} <= found


@pytest.mark.slow
def test_steps_after_the_damage_are_read(damaged: Any) -> None:
    parts, truth, path = damaged
    whole, dice, steps = path.read_bytes(), random.Random(3), ends(path)
    for _ in range(amount(200, 1000)):
        begin = dice.randrange(steps[0], steps[3])
        length = dice.randrange(1, 60)
        filling = dice.choice([b"", dice.randbytes(length), dice.randbytes(2 * length)])  # lost, changed, put in
        if filling == whole[begin : begin + length]:
            continue
        path.write_bytes(whole[:begin] + filling + whole[begin + length :])
        with Run.open(parts) as run:
            found = found_in(run, truth)
            assert not run.complete
        hit = {step for step, end in enumerate(steps) if begin < end} & {
            step for step, end in enumerate([0, *steps]) if begin + length > end
        }
        for step in set(range(5)) - hit:
            assert ("scalar", step, 0, 0) in found


@pytest.mark.slow
def test_forged_journals_are_refused_or_read(damaged: Any) -> None:
    """Indexes that say anything, with a checksum that is right."""
    parts, _, path = damaged
    whole, dice = path.read_bytes(), random.Random(4)
    file = os.open(path, os.O_RDONLY)
    every = list(frames.FrameScan(frames.OpenFile(file), whole[8:16]).frames())
    os.close(file)
    for _ in range(amount(400, 3000)):
        frame = dice.choice(every)
        index = bytearray(frame.index)
        for _ in range(dice.choice([1, 3])):
            at = dice.randrange(len(index))
            index[at] = dice.choice([index[at] ^ 1 << dice.randrange(8), 0, 255])
        head = frame.start - len(index) - 40
        fields = whole[head : head + 32]
        check = frames.CHECK.pack(xxh3_64_intdigest(fields + index))
        path.write_bytes(whole[: head + 32] + check + index + whole[frame.start :])
        try:
            with Run.open(parts) as run:
                for name in run:
                    _ = run[name].values
        except StoreError:
            pass
