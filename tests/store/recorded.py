"""A small run on two ranks in which everything happens that a run can hold, and what must come out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from insitu.store.journal.journal_writer import Entry, JournalWriter

STEPS = 6


@dataclass
class Expected:
    """For each name: (step, rank, call, value) of every row."""

    rows: dict[str, list[tuple[int, int, int, Any]]] = field(default_factory=dict)

    def add(self, name: str, step: int, rank: int, call: int, value: Any) -> None:
        self.rows.setdefault(name, []).append((step, rank, call, value))


def tensor(path: str, call: int, value: Any, dtype: str | None = None) -> Entry:
    """An entry for an array of NumPy."""
    array = np.ascontiguousarray(value)
    data = array.reshape(-1).view(np.uint8)
    return path, call, dtype or array.dtype.name, np.shape(value), data


def entries(step: int, rank: int) -> list[tuple[str, int, Any]]:
    """Name, call and value of all that a rank records in a step."""
    found: list[tuple[str, int, Any]] = [
        ("forward.x", 0, np.full((2, 3), step + 10 * rank, np.float32)),
        ("weight", 0, np.full(4, step // 3, np.float64)),  # changes every third step
        ("ragged", 0, np.arange(step, dtype=np.int64)),
        ("ragged", 1, np.zeros((2, step), np.int64)),
        ("scalar", 0, np.array(step * 2**40 + rank)),
        ("note", 0, None if step == 1 else f"step {step // 2} ü"),
        ("note", 1, {"lr": 0.1, "sizes": (1, step)}),
        ("a/b%\0\n", 0, np.array([True, False])),
        ("", 0, np.zeros((0, 3), np.int16)),
    ]
    if step >= 4 and rank == 1:
        found.append(("late", 0, np.array([1j, -2.0], np.complex64)))
    if step == 5:
        found.append(("forward.x", 0, np.array([7, 8], np.uint16)))
    return found


def record(parts: Path, *, world_size: int = 2, steps: int = STEPS, **options: Any) -> Expected:
    """Write the run, and say what it holds."""
    expected = Expected()
    journals = [
        JournalWriter(parts, rank, {"world_size": world_size, "run_id": "r1", "torch": "2.13.0"}, **options)
        for rank in range(2)
    ]
    for journal in journals:
        journal.describe("forward.x", source="model.py:3")
        journal.describe("weight", shard=journal.rank)
    for step in range(steps):
        for rank, journal in enumerate(journals):
            found = entries(step, rank)
            assert journal.step(step, 100.0 + step, [as_entry(*entry) for entry in found])
            for name, call, value in found:
                second = name == "forward.x" and value.dtype == np.uint16
                expected.add("forward.x@uint16" if second else name, step, rank, call, value)
        if step == 2:
            journals[1].event("mark", "epoch 1", step=step)
    for journal in journals:
        journal.close()
    return expected


def as_entry(path: str, call: int, value: Any) -> Entry:
    return tensor(path, call, value) if isinstance(value, np.ndarray) else (path, call, None, (), value)


def check(run: Any, expected: Expected) -> None:
    """The run holds what it should, to the last bit."""
    assert sorted(run.paths) == sorted(expected.rows)
    for name, rows in expected.rows.items():
        series = run[name]
        assert [series.steps.tolist(), series.ranks.tolist(), series.calls.tolist()] == [
            [row[column] for row in rows] for column in range(3)
        ]
        assert series.times.tolist() == [100.0 + row[0] for row in rows]
        for found, (*_, value) in zip(series.values, rows, strict=True):
            if isinstance(value, np.ndarray):
                assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())
            else:
                assert (type(found), found) == (type(value), value)
