"""Runs of several ranks beside a run of one process, on real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.verbs import rank_programs

import insitu
from insitu.trace.diff import Diff

pytestmark = pytest.mark.slow  # processes are started

ROOT = Path(__file__).parents[2]
AGREEING = (
    *("tensor_parallel", "sequence_parallel", "data_parallel", "statistics", "fsdp", "evaluation"),
    "averaged_loss",
)
# Each fault: the value that must be named first, and a part of what is said about it.
FAULTS = {
    "wrong_dimension": ("blocks.1.up", "agree if joined by Shard(2), and their recorded placement is Shard(0)"),
    "wrong_gather": ("blocks.1.up", "gathered along dimension 0, and belong along dimension 2"),
    "missing_all_reduce": ("blocks.1.down", "an all_reduce is missing"),
    "partial_output": ("blocks.0", "a value before it, blocks.0.down, is Partial"),
    "other_weight": ("blocks.1.up", "only the part of rank 1 differs"),
    "other_copy": ("blocks.0.norm", "only the part of rank 1 differs"),
    "equal_seeds": ("blocks.0.drop", "ranks 0 and 1 have zeros at the same places"),
    "equal_batches": ("blocks.0.norm", "ranks 0 and 1 hold the same values"),
    "summed_loss": ("loss", "2 times as large: a sum over 2 ranks that was not averaged"),
    "summed_gradients": ("head.bias.grad", "2 times as large: a sum over 2 ranks that was not averaged"),
    "lonely_gradients": ("blocks.0.norm.weight", "they were not averaged"),
}
OF_FOUR = ("two_dimensions", "strided_shards", "tensor_parallel", "fsdp", "missing_all_reduce", "other_copy")
# What a program is compared with, if not with the plain training.
SINGLES = {"statistics": "statistics", "fsdp": "fsdp", "evaluation": "evaluation", "equal_seeds": "equal_seeds"}


def run_ranks(folder: Path, ranks: int, names: tuple[str, ...]) -> Path:
    """Run programs on so many processes."""
    program = [sys.executable, "-W", "ignore", "-m", "tests.verbs.rank_programs", str(folder)]
    workers = [
        subprocess.Popen([*program, str(rank), str(ranks), *names], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    try:
        ends = [worker.communicate(timeout=240)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert all(worker.returncode == 0 for worker in workers), "\n".join(ends)
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks recorded."""
    return run_ranks(tmp_path_factory.mktemp("two"), 2, (*AGREEING, *FAULTS, "traces", "communication"))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What four ranks recorded."""
    return run_ranks(tmp_path_factory.mktemp("four"), 4, OF_FOUR)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process recorded."""
    folder = tmp_path_factory.mktemp("one")
    rank_programs.single(folder / "single.h5")
    rank_programs.single(folder / "statistics.h5", keep="stats", only=("**", "**.weight.grad"))
    rank_programs.single(folder / "fsdp.h5", width=7)
    rank_programs.single(folder / "equal_seeds.h5", dropout=0.5)
    rank_programs.single_evaluation(folder / "evaluation.h5")
    return folder


@pytest.fixture
def diff_of(one: Path) -> Callable[[Path], Diff]:
    """The function that compares the file of a program with that of one process."""
    return lambda file: insitu.compare(one / f"{SINGLES.get(file.stem, 'single')}.h5", file)


def said(diff: Diff) -> str:
    """What is said about the first difference, on one line."""
    return " ".join(str(diff).split())


@pytest.mark.parametrize("name", AGREEING)
def test_agreeing_runs_of_two_ranks_pass(diff_of: Callable[[Path], Diff], two: Path, name: str) -> None:
    diff = diff_of(two / f"{name}.h5")
    assert diff.passes and diff.causes == (), str(diff)
    assert diff.ranks is not None and (diff.ranks.side, diff.ranks.ranks) == ("b", 2)
    assert diff.certainty == "values"
    assert not {"none", "unequal copies", "no values"} & set(diff.ranks.methods)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_two_ranks_is_named(diff_of: Callable[[Path], Diff], two: Path, name: str) -> None:
    diff = diff_of(two / f"{name}.h5")
    path, text = FAULTS[name]
    assert diff.first is not None and diff.first.b is not None
    assert (diff.first.b.name, diff.first.b.step) == (path, 0)
    assert text in said(diff)
    assert not diff.passes


@pytest.mark.parametrize("name", ["tensor_parallel", "fsdp"])
def test_agreeing_runs_of_four_ranks_pass(diff_of: Callable[[Path], Diff], four: Path, name: str) -> None:
    diff = diff_of(four / f"{name}.h5")
    assert diff.passes, str(diff)
    assert diff.ranks is not None and diff.ranks.ranks == 4


def test_data_parallel_by_tensor_parallel_passes(diff_of: Callable[[Path], Diff], four: Path) -> None:
    diff = diff_of(four / "two_dimensions.h5")
    assert diff.passes, str(diff)
    compared = {row.b.name: row.status for row in diff.differences if row.a is not None and row.b is not None}
    assert {"blocks.0.up", "blocks.1", "forward", "loss", "blocks.1.down.weight"} < set(compared)
    assert set(compared.values()) <= {"same", "close"}


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("missing_all_reduce", "blocks.1.down", "the sum over the 4 ranks agrees"),
        ("other_copy", "blocks.0.norm", "only the part of rank 1 differs"),
    ],
)
def test_fault_of_four_ranks_is_named(
    diff_of: Callable[[Path], Diff], four: Path, name: str, path: str, text: str
) -> None:
    diff = diff_of(four / f"{name}.h5")
    assert diff.first is not None and diff.first.b is not None and diff.first.b.name == path
    assert text in said(diff)


def test_the_ranks_may_be_on_either_side(one: Path, two: Path) -> None:
    assert insitu.compare(two / "fsdp.h5", one / "fsdp.h5").passes
    diff = insitu.compare(two / "other_weight.h5", one / "single.h5")
    assert diff.first is not None and diff.first.a is not None and diff.first.a.name == "blocks.1.up"
    assert diff.ranks is not None and diff.ranks.side == "a"
    assert "only the part of rank 1 differs" in said(diff)


def test_loaded_runs_are_compared_as_their_files(one: Path, two: Path) -> None:
    with insitu.load(one / "single.h5") as a, insitu.load(two / "tensor_parallel.h5") as b:
        assert insitu.compare(a, b).passes


def test_placements_are_recorded_with_mesh_and_coordinate(two: Path, four: Path) -> None:
    with insitu.load(two / "tensor_parallel.h5") as run:
        facts = run["blocks.0.up"].facts
        assert facts["placements"] == [{"kind": "Shard", "dim": 2}] and facts["global_shape"] == [4, 2, 16]
        assert facts["mesh"] == {"shape": [2], "names": ["tp"], "first": 0, "strides": [1]}
        assert facts["coordinate"] == {"ranks": {0: [0], 1: [1]}}
        assert run["blocks.0.up.weight"].facts["placements"] == [{"kind": "Shard", "dim": 0}]
    with insitu.load(four / "two_dimensions.h5") as run:
        facts = run["blocks.0.down.weight"].facts
        assert facts["mesh"] == {"shape": [2, 2], "names": ["dp", "tp"], "first": 0, "strides": [2, 1]}
        assert facts["coordinate"]["ranks"][2] == [1, 0]


def test_traces_of_all_ranks_are_joined(two: Path) -> None:
    model, x, _ = rank_programs.parts()
    with insitu.record(model, keep="values") as single:
        model(x)
    traces = [insitu.load(two / f"traces.rank{rank}.h5") for rank in range(2)]
    for ranks in (two / "traces.h5", traces, traces[::-1]):
        diff = insitu.compare(single, ranks)
        assert diff.passes, str(diff)
        assert diff.ranks is not None and diff.ranks.methods["shapes"] == 4
    with torch.no_grad():
        model.blocks[1].up.weight[8:] *= 2
    with insitu.record(model, keep="values") as changed:
        model(x)
    diff = insitu.compare(changed, traces)
    assert diff.first is not None and diff.first.b is not None and diff.first.b.name == "blocks.1.up"
    assert "only the part of rank 1 differs" in said(diff)


def collectives_of(trace: insitu.Trace, kind: str) -> list[tuple[str, str | None, int | None]]:
    """The name, the group and the size of each collective."""
    found = [each for each in trace.collectives() if each.call is not None and each.call.kind == kind]
    return [(each.name, each.group.name, each.bytes) for each in found]


def test_collectives_of_tensor_parallel_are_in_the_trace(two: Path) -> None:
    for rank in range(2):
        trace = insitu.load(two / f"traces.rank{rank}.h5")
        assert collectives_of(trace, "function") == [("all_reduce", "0", 256)] * 2
        inside = [each.call.path for each in trace.collectives() if each.call is not None]
        assert inside == ["blocks.0.down", "blocks.1.down"]


def test_sending_receiving_and_redistribution_are_in_the_trace(two: Path) -> None:
    for rank, verb in enumerate(("send", "recv")):
        trace = insitu.load(two / f"communication.rank{rank}.h5")
        first, *rest = collectives_of(trace, "function")
        assert first == (verb, None, 12)
        assert rest[0] == ("all_gather", "0", 12)
        first, *rest = collectives_of(trace, "aten")
        assert first == (verb, "0", 12) and ("all_gather", "0", 12) in rest
        assert trace.collectives()[1].group.ranks == (0, 1)


def test_unequal_numbers_of_ranks_are_refused(two: Path, four: Path) -> None:
    with pytest.raises(insitu.RanksError, match="a has 2 ranks and b has 4"):
        insitu.compare(two / "tensor_parallel.h5", four / "tensor_parallel.h5")


def test_equal_numbers_of_ranks_are_compared_rank_by_rank(two: Path) -> None:
    assert insitu.compare(two / "tensor_parallel.h5", two / "tensor_parallel.h5").same


def test_strided_shards_are_refused_by_name(diff_of: Callable[[Path], Diff], four: Path) -> None:
    with pytest.raises(insitu.RanksError, match=r"'blocks.0.up.weight' cannot be joined.*_StridedShard\(dim=0"):
        diff_of(four / "strided_shards.h5")


def test_traces_that_do_not_belong_together_are_refused(two: Path) -> None:
    model, x, _ = rank_programs.parts()
    with insitu.record(model) as single:
        model(x)
    first, second = (insitu.load(two / f"traces.rank{rank}.h5") for rank in range(2))
    with pytest.raises(insitu.RanksError, match="2 of the 2 traces are of rank 0"):
        insitu.compare(single, [first, first])
    with pytest.raises(insitu.RanksError, match="of a run of 2 ranks, and 1 were passed, of rank 1"):
        insitu.compare(single, [second])
    second.about["world_size"] = 3
    with pytest.raises(insitu.RanksError, match="of runs of 2 and of 3 ranks"):
        insitu.compare(single, [first, second])
    with pytest.raises(insitu.InsituError, match="is not a trace of one rank"):
        insitu.compare(single, [first, two / "fsdp.h5"])


def test_the_command_names_the_fault_and_exits_with_1(one: Path, two: Path) -> None:
    command = [sys.executable, "-m", "insitu", "diff", str(one / "single.h5"), str(two / "missing_all_reduce.h5")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "an all_reduce is missing" in done.stdout, done.stderr
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    facts = json.loads(done.stdout)
    assert any("all_reduce" in text for text in facts["causes"][0]["relations"])
    assert (facts["ranks"]["side"], facts["ranks"]["ranks"]) == ("b", 2)
