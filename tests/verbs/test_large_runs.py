"""Runs larger than the memory are compared by their checksums, and read up to the first difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import insitu
from insitu.errors import InsituWarning
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.merge import merge_journals
from insitu.store.run.run_journals import JournalVariable
from insitu.verbs import large_runs

STEPS = 5


@pytest.fixture(autouse=True)
def every_run_is_large(monkeypatch: Any) -> None:
    monkeypatch.setattr(large_runs, "LARGE", 0)


def write(folder: Path, changes: dict[tuple[str, int, int], float] | None = None, **options: Any) -> Path:
    """A run of two ranks; `changes` are added to the values of a path, rank and step."""
    names, ranks = options.get("names", ("a", "b")), options.get("ranks", 2)
    for rank in range(ranks):
        with JournalWriter(folder, rank, {"world_size": ranks}, run="a" * 32) as journal:
            for step in range(options.get("steps", STEPS)):
                entries: list[Any] = [("loss", 0, None, (), 1.0 + step + (changes or {}).get(("loss", rank, step), 0))]
                for name in names:
                    value = np.arange(4.0) + 10 * step + 100 * rank + (changes or {}).get((name, rank, step), 0.0)
                    entries.append((name, 0, "float64", (4,), value.view(np.uint8)))
                journal.step(step, 0.0, entries)
    return folder


def compared(a: Path, b: Path, **options: Any) -> tuple[Any, str]:
    with pytest.warns(InsituWarning, match="the runs are large") as told:
        diff = insitu.compare(a, b, **options)
    return diff, str(told[0].message)


def test_equal_runs_are_not_read(tmp_path: Path) -> None:
    diff, told = compared(write(tmp_path / "one"), write(tmp_path / "other"))
    assert diff.same and diff.passes
    assert told.endswith("Of 30 pairs of values, 30 have equal checksums and 0 were read")


def test_the_first_difference_is_named(tmp_path: Path) -> None:
    changes = {("b", 1, 2): 1.0, ("b", 0, 4): 1.0, ("a", 1, 3): 1.0}
    diff, told = compared(write(tmp_path / "one"), write(tmp_path / "other", changes))
    first = diff.first
    assert (first.a.name, first.a.step, first.a.rank, first.delta) == ("b", 2, 1, 1.0)
    assert told.endswith("27 have equal checksums and 2 were read")


def test_values_within_the_tolerance_are_passed_over(tmp_path: Path) -> None:
    changes = {("a", 0, step): 1e-12 for step in range(STEPS)} | {("a", 1, 3): 0.5}
    diff, _ = compared(write(tmp_path / "one"), write(tmp_path / "other", changes))
    assert (diff.first.a.step, diff.first.a.rank, diff.first.delta) == (3, 1, 0.5)
    close, told = compared(tmp_path / "one", write(tmp_path / "close", {("a", 0, 1): 1e-12}))
    assert close.passes and not close.same and "1 were read" in told


def test_python_numbers_are_compared(tmp_path: Path) -> None:
    diff, _ = compared(write(tmp_path / "one"), write(tmp_path / "other", {("loss", 0, 3): 1.0}))
    assert (diff.first.a.name, diff.first.a.step) == ("loss", 3)


def test_renamed_variables_are_compared(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one"), write(tmp_path / "other", {("z", 0, 1): 1.0}, names=("a", "z"))
    diff, _ = compared(one, other, rename={"b": "z"})
    assert (diff.first.a.name, diff.first.b.name, diff.first.a.step) == ("b", "z", 1)


@pytest.mark.parametrize("options", [{"names": ("a",)}, {"steps": 3}])
def test_what_one_run_lacks_is_a_difference(tmp_path: Path, options: dict[str, Any]) -> None:
    diff, _ = compared(write(tmp_path / "one"), write(tmp_path / "other", **options))
    assert not diff.same
    assert "only" in repr(diff) + str(diff)


def test_large_values_are_held_as_statistics(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(large_runs, "_SMALL", 0)
    monkeypatch.setattr(large_runs, "_KEPT", 0)
    diff, _ = compared(write(tmp_path / "one"), write(tmp_path / "other", {("a", 0, 2): 1.0}))
    assert (diff.first.a.name, diff.first.a.step, diff.first.certainty) == ("a", 2, "statistics")
    equal, _ = compared(tmp_path / "one", write(tmp_path / "equal"))
    assert equal.passes


def test_a_file_and_journals_are_compared(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one.h5.parts"), write(tmp_path / "other", {("a", 0, 2): 1.0})
    merge_journals(one, tmp_path / "one.h5")
    diff, told = compared(tmp_path / "one.h5", other)
    assert diff.first.a.step == 2 and "29 have equal checksums" in told


def test_the_same_first_difference_as_in_memory(tmp_path: Path, monkeypatch: Any) -> None:
    one, other = write(tmp_path / "one"), write(tmp_path / "other", {("b", 1, 2): 1.0, ("a", 0, 3): 2.0})
    large, _ = compared(one, other)
    monkeypatch.setattr(large_runs, "LARGE", 2**40)
    small = insitu.compare(one, other)
    assert [(cause.a.name, cause.a.step, cause.a.rank, cause.delta) for cause in (large.first, small.first)] == [
        ("b", 2, 1, 1.0)
    ] * 2


def test_only_values_that_differ_are_read(tmp_path: Path, monkeypatch: Any) -> None:
    read: list[int] = []
    pieces = JournalVariable.pieces

    def counted(self: JournalVariable, slots: Any) -> Any:
        read.extend(slots.tolist() if self.type.name != "json" else ())
        return pieces(self, slots)

    monkeypatch.setattr(JournalVariable, "pieces", counted)
    monkeypatch.setattr(large_runs, "_SMALL", 0)
    compared(write(tmp_path / "one"), write(tmp_path / "other", {("a", 0, 2): 1.0}))
    assert len(read) == 4  # of each run: to find the difference, and to show it
