"""Accelerate: a loop of the user with a model that `Accelerator.prepare` returned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from tests.integrations.training import Net, is_clean
from torch.utils.data import DataLoader

import insitu


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """Accelerators of a process share their settings."""
    reset_state()
    yield
    reset_state()


def reset_state() -> None:
    AcceleratorState._reset_state(True)
    PartialState._reset_state()
    GradientState._reset_state()


class Loop:
    """Eight batches, two for each update."""

    def __init__(self, **settings: Any) -> None:
        self.accelerator = Accelerator(cpu=True, **settings)
        torch.manual_seed(0)
        net = Net()
        data: Any = DataLoader(torch.randn(16, 3), batch_size=2)
        self.model, self.optimizer, self.data = self.accelerator.prepare(net, torch.optim.SGD(net.parameters()), data)

    def train(self) -> None:
        for x in self.data:
            with self.accelerator.accumulate(self.model):
                loss = self.model(x).float().square().mean()
                self.accelerator.backward(loss)
                self.optimizer.step()
                self.optimizer.zero_grad()


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_steps_are_updates_and_paths_those_of_the_model(precision: str) -> None:
    loop = Loop(mixed_precision=precision, gradient_accumulation_steps=2)
    only = ["forward.h", "body", "**.weight.grad", "head.weight"]
    with insitu.record_run(loop.model, only=only, step="update") as live:
        loop.train()
    assert sorted(live) == ["body", "body.weight.grad", "forward.h", "head.weight", "head.weight.grad"]
    assert live["body"].steps.tolist() == live["forward.h"].steps.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert live["head.weight.grad"].steps.tolist() == live["head.weight"].steps.tolist() == [0, 1, 2, 3]
    assert live["body"].values.dtype == ("bfloat16" if precision == "bf16" else "float32")
    assert is_clean()


def test_a_gradient_is_that_of_all_batches_of_the_update() -> None:
    loop = Loop(gradient_accumulation_steps=2)
    used = []
    loop.optimizer.optimizer.register_step_pre_hook(lambda *_: used.append(loop.model.head.weight.grad.clone()))
    with insitu.record_run(loop.model, only="head.weight.grad", step="update") as live:
        loop.train()
    assert torch.equal(torch.from_numpy(live["head.weight.grad"].values), torch.stack(used))


def test_guard_accepts_gradients_that_accelerate_divides() -> None:
    loop = Loop(mixed_precision="bf16", gradient_accumulation_steps=2)
    with insitu.guard(loop.model) as guard:
        loop.train()
    assert guard.findings == []


def test_guard_names_the_parameter_of_the_model() -> None:
    loop = Loop()
    loop.model.body.weight.data.fill_(float("inf"))
    with pytest.raises(insitu.NonFiniteError) as caught, insitu.guard(loop.model):
        loop.train()
    assert caught.value.finding.path == "body.bias"


def test_trace_has_the_rows_of_the_loop() -> None:
    loop = Loop(gradient_accumulation_steps=2)
    with insitu.record() as trace:
        loop.train()
    text = str(trace)
    assert "for x in self.data:  × 8" in text and "in 4 of 8" in text
    assert "body  Linear(3 → 4)" in text and "self.accelerator.backward(loss)" in text
    with insitu.record(loop.model) as trace:
        loop.train()
    assert {call.path for call in trace.calls if call.kind == "module"} == {"", "body", "head"}
