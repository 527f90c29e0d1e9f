"""The drop-in for TensorTracer on two processes: the shapes of its README, and ranks that do not keep in step."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.dropins.running import HERE

WORLD = 2
SCENARIOS = [
    *("seed_0", "seed_1", "seed_2", "uneven", "one_sided", "raising", "raising_callback", "first_rank_raises"),
    *("one_rank_only", "not_in_rank_0", "large_and_odd", "traced_model", "again"),
    "wrapped_and_gone",  # the last: it ends the process group
]
Found = dict[str, dict[str, Any]]


def run(folder: Path, scenarios: list[str], *, init: str | None = None, killed: int | None = None) -> list[Found]:
    """Run scenarios on two ranks; what each has found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        init = init or f"tcp://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, str(HERE / "programs" / "two_ranks.py")]
    environment = {**os.environ, "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(WORLD), init, *scenarios],
            **{"cwd": folder, "env": environment, "text": True},  # type: ignore[call-overload]
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(WORLD)
    ]
    try:
        outputs = [rank.communicate(timeout=60) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for number, (rank, (_, errors)) in enumerate(zip(ranks, outputs, strict=True)):
        assert rank.returncode == (-9 if number == killed else 0), errors
    return [json.loads(text.splitlines()[-1]) if text else {} for text, _ in outputs]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """All scenarios that leave both ranks alive, one after the other in one process group."""
    return run(tmp_path_factory.mktemp("ranks"), SCENARIOS)


def of(both: list[Found], scenario: str, rank: int = 0) -> Any:
    return both[rank][scenario]["result"]


def entry(found: Any) -> list[tuple[int, int, Any]]:
    """Iteration, rank and value of all that was traced of `forward`."""
    forward = found["forward"]
    return list(zip(forward["iterations"], forward["ranks"], forward["values"], strict=True))


def test_the_first_example(both: list[Found]) -> None:
    # (N//G, W, G, B, C), with 8 iterations in groups of 4
    assert of(both, "seed_0") == {"forward.x": [[2, 2, 4, 4, 20]], "forward": [[2, 2, 4, 4, 2]]}


def test_the_second_example(both: list[Found]) -> None:
    found = of(both, "seed_1")
    assert (found["forward.x"], found["forward"]) == ([4, 4, 4, 20], [4, 4, 4, 2])  # (N//G, G*W, B, C)
    assert (found["forward.x_iterations"], found["forward.x_ranks"]) == ([16], [16])
    assert of(both, "seed_1", rank=1) == {}


def test_the_third_example(both: list[Found]) -> None:
    assert of(both, "seed_2") == {"forward.x": [[50, 20]], "forward": [[50, 2]]}  # (N//G, C)


def test_the_examples_run_without_warnings(both: list[Found]) -> None:
    assert [found[f"seed_{index}"]["warnings"] for found in both for index in range(3)] == [[]] * 6


def test_uneven_steps(both: list[Found]) -> None:
    groups = [(1, 2), (3, 4), (5, 6), (7, 8)]
    ends = (5, 8)
    assert entry(of(both, "uneven")) == [
        (iteration, rank, iteration - 1 + 100 * rank)
        for group in groups
        for rank in range(2)
        for iteration in group
        if iteration <= ends[rank]
    ]
    assert of(both, "uneven", rank=1) == {}


def test_a_variable_that_one_rank_has(both: list[Found]) -> None:
    assert of(both, "one_sided") == {"forward.large": [1, 1, 1, 1]}


def test_a_rank_that_raises(both: list[Found]) -> None:
    assert of(both, "raising", rank=1) == {"raised": "trouble"}
    assert [row for row in entry(of(both, "raising")) if row[1] == 1] == [(n + 1, 1, n) for n in range(4)]
    assert [row for row in entry(of(both, "raising")) if row[1] == 0] == [(n + 1, 0, n) for n in range(6)]


def test_a_callback_that_raises_on_one_rank(both: list[Found]) -> None:
    assert of(both, "raising_callback")["forward"]["values"] == [0, 1]
    assert both[0]["raising_callback"]["warnings"] == []
    assert both[1]["raising_callback"]["warnings"] == [
        "fail failed on 'forward', whose values stay as they were: ValueError: mine"
    ]


def test_rank_0_raises_and_the_other_keeps_its_values(both: list[Found]) -> None:
    alone = entry(of(both, "first_rank_raises", rank=1))
    taken = [row for row in entry(of(both, "first_rank_raises")) if row[1] == 1]
    assert sorted(taken + alone) == [(n + 1, 1, n) for n in range(4)]
    assert len(both[1]["first_rank_raises"]["warnings"]) == 1


def test_tracing_on_one_rank_does_not_block_the_others(both: list[Found]) -> None:
    found = of(both, "one_rank_only")
    assert entry(found) == [(n + 1, 0, n) for n in range(3)]
    assert found["seconds"] < 4
    found = of(both, "not_in_rank_0", rank=1)
    assert entry(found) == [(n + 1, 1, n) for n in range(4)]
    assert found["seconds"] < 4
    assert both[1]["not_in_rank_0"]["warnings"] == [
        "rank 0 does not trace, or has ended before: rank 1 keeps its values in its own results"
    ]


def test_a_process_group_that_ends_in_the_block(both: list[Found]) -> None:
    assert of(both, "wrapped_and_gone") == {"calls": 2, "results": {"forward.input": [0, 0, 1, 1, 0, 0, 1, 1]}}
    assert of(both, "wrapped_and_gone", rank=1) == {"calls": 0, "results": {}}


def test_large_values_and_odd_dtypes(both: list[Found]) -> None:
    assert of(both, "large_and_odd") == {
        "large": [[[3 << 20], [1.0]], [[3 << 20], [2.0]]],
        "forward.small": ["tensor([1.], dtype=torch.bfloat16)", "tensor([2.], dtype=torch.bfloat16)"],
        "forward.whole": [f"tensor([{2**40 + 1}])", f"tensor([{2**40 + 2}])"],
        "forward.none": ["tensor([], size=(0, 3))"] * 2,
        "forward.text": ["rank 0", "rank 1"],
    }


def test_a_traced_model_does_not_wait_in_its_calls(both: list[Found]) -> None:
    assert entry(of(both, "traced_model")) == [
        *((1, 0, 0), (2, 0, 1), (1, 1, 10), (2, 1, 11)),
        *((3, 0, 2), (3, 1, 12), (4, 1, 13)),
    ]
    assert all(of(both, "traced_model", rank=rank)["seconds"] < 1 for rank in range(WORLD))


def test_a_tracer_that_is_entered_again_goes_on(both: list[Found]) -> None:
    assert sorted(entry(of(both, "again"))) == sorted(
        (n + 1, rank, n + 10 * rank) for n in range(6) for rank in range(2)
    )


@pytest.mark.slow
def test_a_rank_that_is_killed(tmp_path: Path) -> None:
    found = run(tmp_path, ["killed"], killed=1)[0]["killed"]
    assert entry(found["result"]) == [
        *((1, 0, 0), (2, 0, 1), (1, 1, 0), (2, 1, 1)),
        *((3, 0, 2), (4, 0, 3), (5, 0, 4), (6, 0, 5)),
    ]
    assert found["result"]["seconds"] < 3
    assert found["warnings"] == [
        "nothing more came from rank 1: the results go on without, and have what had come before"
    ]


@pytest.mark.slow
def test_rank_0_is_killed_and_the_other_goes_on(tmp_path: Path) -> None:
    found = run(tmp_path, ["first_killed"], killed=0)[1]["first_killed"]
    assert entry(found["result"])[-4:] == [(3, 1, 2), (4, 1, 3), (5, 1, 4), (6, 1, 5)]
    assert found["result"]["seconds"] < 3
    assert len(found["warnings"]) == 1 and "keeps its values" in found["warnings"][0]


@pytest.mark.slow
def test_a_process_group_with_a_file_store_works(tmp_path: Path) -> None:
    found = run(tmp_path, ["uneven", "again"], init=f"file://{tmp_path}/meet")
    assert len(entry(of(found, "uneven"))) == 13
    assert len(entry(of(found, "again"))) == 12
