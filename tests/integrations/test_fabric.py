"""Lightning Fabric: a loop of the user with a model that `fabric.setup` returned."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from tests.integrations.training import Net, is_clean
from torch.utils.data import DataLoader

import insitu


class Loop:
    """Eight batches, two for each update."""

    def __init__(self, **settings: Any) -> None:
        self.fabric = Fabric(accelerator="cpu", devices=1, **settings)
        torch.manual_seed(0)
        self.net = Net()
        self.model, self.optimizer = self.fabric.setup(self.net, torch.optim.SGD(self.net.parameters()))
        self.model.mark_forward_method("training_step")
        data: Any = DataLoader(torch.randn(16, 3), batch_size=2)
        self.data = self.fabric.setup_dataloaders(data)

    def train(self) -> None:
        for number, x in enumerate(self.data):
            is_accumulating = number % 2 == 0
            with self.fabric.no_backward_sync(self.model, enabled=is_accumulating):
                self.fabric.backward(self.model.training_step(x) / 2)
            if not is_accumulating:
                self.optimizer.step()
                self.optimizer.zero_grad()


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_steps_are_updates_and_paths_those_of_the_model(precision: Any) -> None:
    loop = Loop(precision=precision)
    only = ["forward.h", "training_step.loss", "body", "**.weight.grad", "head.weight"]
    with insitu.record_run(loop.model, only=only, step="update") as live:
        loop.train()
    paths = ["body", "body.weight.grad", "forward.h", "head.weight", "head.weight.grad", "training_step.loss"]
    assert sorted(live) == paths
    assert live["body"].steps.tolist() == live["training_step.loss"].steps.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert live["head.weight.grad"].steps.tolist() == live["head.weight"].steps.tolist() == [0, 1, 2, 3]
    assert is_clean()


def test_guard_and_trace_know_the_model_inside() -> None:
    loop = Loop()
    with insitu.guard(loop.model) as guard, insitu.record(loop.model) as trace:
        loop.train()
    assert guard.findings == []
    assert {call.path for call in trace.calls if call.kind == "module"} == {"", "body", "head"}
    loop.net.body.weight.data.fill_(float("inf"))
    with pytest.raises(insitu.NonFiniteError), insitu.guard(loop.model):
        loop.train()


def test_watch_prints_paths_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop()
    with insitu.watch(loop.model, only="body"):
        loop.model(torch.ones(2, 3))
    printed = capsys.readouterr()
    assert "body  Linear(3 → 4)" in printed.out + printed.err and "_forward_module" not in printed.out + printed.err
