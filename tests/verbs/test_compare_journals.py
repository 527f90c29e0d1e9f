"""Runs of several ranks beside a run of one process, from journals made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.recorded import tensor

import insitu
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.run import Run

WHOLE = np.arange(12.0, dtype=np.float32).reshape(4, 3)


def layout(rank: int, ranks: int, kind: str = "Shard", **more: Any) -> dict[str, Any]:
    mesh = {"shape": [ranks], "names": ["tp"], "first": 0, "strides": [1]}
    return {"global_shape": [4, 3], "placements": [{"kind": kind, **more}], "mesh": mesh, "coordinate": [rank]}


def run_of(folder: Path, values: dict[int, Any], *, ranks: int, facts: dict[int, dict[str, Any]] | None = None) -> Run:
    """A run in which each rank recorded one value, in one step."""
    for rank, value in values.items():
        with JournalWriter(folder, rank, {"world_size": ranks}, run="0" * 32) as journal:
            if facts:
                journal.describe("x", **facts[rank])
            journal.step(0, 0.0, [tensor("x", 0, value)])
    return Run.open(folder)


@pytest.fixture
def single(tmp_path: Path) -> Run:
    return run_of(tmp_path / "single", {0: WHOLE}, ranks=1)


def test_rank_that_left_nothing_is_named(tmp_path: Path, single: Run) -> None:
    run = run_of(tmp_path / "run", {0: WHOLE[:2], 2: WHOLE[3:]}, ranks=4)
    with pytest.raises(insitu.RanksError, match="b is a run of 4 ranks, and there is nothing of rank 1, 3"):
        insitu.compare(single, run)


def test_values_are_joined_by_the_facts_of_each_rank(tmp_path: Path, single: Run) -> None:
    halves = dict(enumerate(np.split(WHOLE, 2)))
    facts = {rank: layout(1 - rank, 2, dim=0) for rank in halves}  # the first half belongs to the second coordinate
    swapped = run_of(tmp_path / "swapped", {0: halves[1], 1: halves[0]}, ranks=2, facts=facts)
    assert insitu.compare(single, swapped).passes
    straight = run_of(tmp_path / "straight", halves, ranks=2, facts=facts)
    assert not insitu.compare(single, straight).passes


def test_reduction_that_is_not_known_is_named(tmp_path: Path, single: Run) -> None:
    facts = {rank: layout(rank, 2, "Partial", reduce_op="bxor") for rank in range(2)}
    run = run_of(tmp_path / "run", {0: WHOLE, 1: WHOLE}, ranks=2, facts=facts)
    with pytest.raises(insitu.RanksError, match=r"'x' cannot be joined.* rank 0 is Partial\(bxor\)"):
        insitu.compare(single, run)


def test_parts_that_do_not_belong_together_are_named(tmp_path: Path, single: Run) -> None:
    facts = {0: layout(0, 2, dim=0), 1: layout(1, 2, dim=1)}
    run = run_of(tmp_path / "run", dict(enumerate(np.split(WHOLE, 2))), ranks=2, facts=facts)
    with pytest.raises(insitu.RanksError, match="the parts of 'x' do not belong together: their placements"):
        insitu.compare(single, run)


def test_a_value_that_one_process_lacks_is_only_in_the_ranks(tmp_path: Path, single: Run) -> None:
    folder = tmp_path / "run"
    for rank, half in enumerate(np.split(WHOLE, 2)):
        with JournalWriter(folder, rank, {"world_size": 2}, run="0" * 32) as journal:
            journal.step(0, 0.0, [tensor("x", 0, half), tensor("own", 0, half)])
    diff = insitu.compare(single, Run.open(folder))
    assert diff.counts == {"same": 1, "only in b": 1}
    assert diff.ranks is not None and diff.ranks.methods == {"shapes": 1, "none": 1}


def test_renamed_paths_are_joined_by_the_shapes_of_the_other_run(tmp_path: Path, single: Run) -> None:
    folder = tmp_path / "run"
    for rank, half in enumerate(np.split(WHOLE, 2)):
        with JournalWriter(folder, rank, {"world_size": 2}, run="0" * 32) as journal:
            journal.step(0, 0.0, [tensor("y", 0, half)])
    run = Run.open(folder)
    assert insitu.compare(single, run, rename={"x": "y"}).passes
    assert insitu.compare(run, single, rename={"y": "x"}).passes
