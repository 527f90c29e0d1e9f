"""Models that training wraps or shards: one process is enough to see that paths are clean and nothing changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.capture.oracle import BareMode, bits, gradients, nothing_left, ops, troubles
from torch import Tensor, nn

import insitu


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store: Path = tmp_path_factory.mktemp("store") / "file"
    before = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    hook = sys.excepthook  # torch.distributed puts the rank before each exception
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()
    sys.excepthook = hook
    assert before == {name: os.environ.get(name) for name in before}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))


def made() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Model(), torch.randn(3, 4)


def trained(model: nn.Module, x: Tensor) -> Any:
    output = model(x)
    output.sum().backward()
    return bits((output, gradients(model)))


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_ddp(level: str) -> None:
    model, x = made()
    expected = trained(nn.parallel.DistributedDataParallel(model), x)
    model, x = made()
    wrapped = nn.parallel.DistributedDataParallel(model)
    with nothing_left(), insitu.record(wrapped, level=level) as trace:
        assert trained(wrapped, x) == expected
    assert troubles(trace) == []
    assert list(trace.modules) == ["", "encoder", "encoder.0", "encoder.1", "head"]
    assert trace.modules[""].type == "Model"
    assert {call.step for call in trace.calls} == {0}
    with insitu.record(wrapped, only="encoder.*") as trace:
        wrapped(x)
    assert list(trace.modules) == ["encoder.0", "encoder.1"]


def test_ddp_runs_the_same_operators() -> None:
    model, x = made()
    wrapped = nn.parallel.DistributedDataParallel(model)
    for _ in range(3):  # the first passes sort the buckets
        trained(wrapped, x)
    with BareMode() as mode:
        trained(wrapped, x)
    with insitu.record(level="aten") as trace:
        trained(wrapped, x)
    assert ops(trace) == mode.ops


def test_dtensor() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (1,))
    x, w = torch.randn(4, 4), torch.randn(4, 4)

    def run() -> Any:
        left = distribute_tensor(x, mesh, [Shard(0)])
        right = distribute_tensor(w, mesh, [Replicate()]).requires_grad_()
        output = torch.relu(left @ right)
        output.sum().backward()
        return bits((output.to_local(), right.grad.to_local() if right.grad is not None else None))

    run()
    expected = run()
    for level in ("modules", "functions", "aten"):
        for keep in ("meta", "stats"):
            with nothing_left(), insitu.record(level=level, keep=keep) as trace:
                assert run() == expected
            assert troubles(trace) == []
    (product,) = [call for call in trace.find(kind="function") if call.operator == "@"]
    assert [(facts.type, facts.shape) for facts in product.inputs] == [("DTensor", (4, 4))] * 2
    assert product.outputs[0].type == "DTensor"


def test_the_rank_is_noted() -> None:
    with insitu.record() as trace:
        torch.ones(1)
    assert trace.calls[0].rank == 0
