"""Collectives in a trace, in one process: the same functions and operators as in many."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from tests.capture.oracle import nothing_left, troubles

import insitu
from insitu.trace.collective import Collective, ProcessGroup
from insitu.view import render

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")  # names that older versions have

WORLD = ProcessGroup("0", 1, (0,))


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store: Path = tmp_path_factory.mktemp("store") / "file"
    hook = sys.excepthook  # torch.distributed puts the rank before each exception
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    sys.excepthook = hook


def collectives(trace: insitu.Trace, kind: str) -> list[Collective]:
    found = [each for each in trace.collectives() if each.name != "wait"]
    return [each for each in found if each.call is not None and each.call.kind == kind]


# Each collective: how it is called, its name, and the bytes that this rank puts in.
CALLS: dict[str, tuple[Callable[[torch.Tensor], Any], str, int]] = {
    "all_reduce": (lambda x: dist.all_reduce(x), "all_reduce", 24),
    "broadcast": (lambda x: dist.broadcast(x, 0), "broadcast", 24),
    "reduce": (lambda x: dist.reduce(x, 0), "reduce", 24),
    "all_gather": (lambda x: dist.all_gather([torch.empty(6)], x), "all_gather", 24),
    "all_gather_into_tensor": (lambda x: dist.all_gather_into_tensor(torch.empty(6), x), "all_gather", 24),
    "reduce_scatter_tensor": (lambda x: dist.reduce_scatter_tensor(torch.empty(6), x), "reduce_scatter", 24),
    "all_to_all_single": (lambda x: dist.all_to_all_single(torch.empty(6), x), "all_to_all", 24),
    "gather": (lambda x: dist.gather(x, [torch.empty(6)]), "gather", 24),
    "scatter": (lambda x: dist.scatter(torch.empty(6), [x]), "scatter", 24),
}


@pytest.mark.parametrize("name", CALLS)
def test_collective_has_name_group_and_size(name: str) -> None:
    run, usual, size = CALLS[name]
    with nothing_left(), insitu.record(level="aten") as trace:
        run(torch.ones(6))
    assert troubles(trace) == []
    (function,) = collectives(trace, "function")
    (operator,) = collectives(trace, "aten")
    assert (function.name, function.bytes) == (operator.name, operator.bytes) == (usual, size)
    assert operator.group == WORLD and operator.is_pending and not function.is_pending
    assert function.group == ProcessGroup()  # the program names none


def test_group_that_is_named_is_recorded_at_the_functions_level() -> None:
    own = dist.new_group([0])
    with insitu.record() as trace:
        dist.all_reduce(torch.ones(6), op=dist.ReduceOp.MAX, group=own)
    (found,) = collectives(trace, "function")
    assert found.group == ProcessGroup(own.group_name, 1, (0,)) and found.reduction == "max"


def test_functional_collective_has_the_name_of_its_group() -> None:
    with insitu.record(level="aten") as trace:
        functional.wait_tensor(functional.all_reduce(torch.ones(6), "sum", dist.group.WORLD))
    for kind in ("function", "aten"):
        (found,) = collectives(trace, kind)
        assert (found.name, found.group.name, found.bytes, found.reduction) == ("all_reduce", "0", 24, "sum")


def test_asynchronous_collective_and_its_wait_are_calls() -> None:
    wait = vars(dist.Work)["wait"]
    with insitu.record() as trace:
        work = dist.all_reduce(torch.ones(6), async_op=True)
        assert work.wait() is True
    assert vars(dist.Work)["wait"] is wait
    started, waited = trace.collectives()
    assert started.call is not None and started.call.name == "torch.distributed.all_reduce"
    assert waited.call is not None and waited.call.name == "torch.distributed.Work.wait"
    assert started.is_pending and waited.name == "wait"


def test_wait_is_restored_only_after_the_last_session() -> None:
    wait = vars(dist.Work)["wait"]
    with insitu.record() as outer:
        with insitu.record():
            pass
        dist.all_reduce(torch.ones(6), async_op=True).wait()
    assert vars(dist.Work)["wait"] is wait
    assert outer.calls[-1].name == "torch.distributed.Work.wait"


def test_statistics_of_unfinished_results_are_not_kept() -> None:
    x = torch.ones(6)
    with insitu.record(level="aten", keep="stats") as trace:
        dist.all_reduce(x)
        x + 1
    (running,) = [call for call in trace.calls if call.name == "c10d.allreduce_"]
    assert [facts.stats for facts in running.outputs] == [None]
    (added,) = [call for call in trace.calls if call.name == "torch.Tensor.add"]
    assert added.outputs[0].stats is not None


def test_tree_page_and_file_show_group_and_size(tmp_path: Path) -> None:
    with insitu.record(level="aten") as trace:
        dist.all_reduce(torch.ones(6))
    insitu.save(trace, tmp_path / "trace.h5")
    loaded = insitu.load(tmp_path / "trace.h5")
    assert loaded.collectives() == trace.collectives() != []
    text = render(loaded, width=120)
    assert "dist.all_reduce(sum, 24 B, default group)" in text
    assert "c10d.allreduce_(24 B, group 0: ranks 0; async)" in text
    insitu.save(trace, tmp_path / "trace.html")
    page = (tmp_path / "trace.html").read_text()
    assert page  # what the rows say is packed: see `call_label`
    from insitu.view.page.row_columns import call_label

    assert "c10d.allreduce_(24 B, group 0: ranks 0; async)" in map(call_label, loaded.calls)


def test_a_gather_of_tensors_is_not_a_collective() -> None:
    with insitu.record(level="aten") as trace:
        torch.gather(torch.ones(2, 2), 0, torch.zeros(1, 2, dtype=torch.long))
    assert trace.collectives() == []
