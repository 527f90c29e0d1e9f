"""SIGKILL at random: every step that was acknowledged is there, and no value is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.faults.amount import amount
from tests.faults.writer import STEPS, value

import insitu
from insitu.store.run.merge import merge_journals


def killed(folder: Path, mode: str, seeds: range) -> list[Path]:
    """A run for each seed, all of them killed."""
    command = [sys.executable, "-m", "tests.faults.writer", str(folder), mode, *map(str, seeds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [folder / str(seed) for seed in seeds]


def acknowledged(place: Path) -> list[int]:
    path = place / "acknowledged"
    return [int(line) for line in path.read_text().split() if line != "done"] if path.exists() else []


def check(run: Any, steps: list[int]) -> None:
    """The run holds these steps, perhaps one more that was not acknowledged, and nothing wrong."""
    assert run.steps.tolist() in (steps, [*steps, len(steps)])
    for series in run.find("x.*"):
        name = int(series.name[2:])
        assert series.steps.tolist() == [step for step in run.steps.tolist() if step // 2 + 1 > name]
        for step, found in zip(series.steps.tolist(), series.values, strict=True):
            assert found.shape == value(step, name).shape and (found == value(step, name)).all()
    if len(run.steps):
        assert run["same"].values[:, 7].tolist() == [step // 7 for step in run.steps.tolist()]
        assert run["text"].values == [f"step {step}" for step in run.steps.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["journal", "compact"])
def test_no_acknowledged_step_is_lost(tmp_path: Path, mode: str) -> None:
    torn = 0
    for place in killed(tmp_path, mode, range(amount(20, 100))):
        steps = acknowledged(place)
        if not (place / "run.h5.parts" / "rank00000").exists() and not (place / "run.h5").exists():
            assert not steps  # killed before it began
            continue
        before = (place / "run.h5").exists()
        torn += not before
        if not steps and not list(place.rglob("*.journal")):
            continue
        with insitu.load(place / "run.h5") as run:
            check(run, steps)
        if not before:
            merge_journals(place / "run.h5.parts", place / "run.h5")
            with insitu.load(place / "run.h5") as run:
                check(run, steps)
        if mode == "compact" and steps == list(range(STEPS)):
            assert run.complete or not before
    assert torn > 3
