"""`record_run(step="update")`: a step is one update of an optimizer that has parameters of the model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import insitu


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, scale: float = 1.0) -> None:
    """Two batches for one update."""
    for _ in range(2):
        (model(torch.full((2, 3), scale)).mean() / 2).backward()
    optimizer.step()
    optimizer.zero_grad()


def test_calls_of_one_update_are_one_step() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.record_run(model, only=["forward", "weight", "weight.grad"], step="update") as live:
        for _ in range(3):
            trained(model, optimizer)
    assert live["forward"].steps.tolist() == [0, 0, 1, 1, 2, 2]
    assert live["weight"].steps.tolist() == live["weight.grad"].steps.tolist() == [0, 1, 2]
    assert torch.equal(torch.from_numpy(live["weight"].values[-1]), model.weight.detach())


def test_evaluation_between_updates_is_in_no_step() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.record_run(model, only="forward.input", step="update") as live:
        for _ in range(2):
            trained(model, optimizer)
            with torch.no_grad():
                model(torch.full((5, 3), 100.0))
    assert live["forward.input"].steps.tolist() == [0, 0, 1, 1]
    assert live["forward.input"].values.max() == 1.0


def test_updates_of_another_model_count_nothing() -> None:
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, other)]
    with insitu.record_run(model, only="forward", step="update") as live:
        for _ in range(2):
            model(torch.ones(2, 3)).mean().backward()
            trained(other, optimizers[1])
            trained(model, optimizers[0])
    assert live["forward"].steps.tolist() == [0, 0, 0, 1, 1, 1]


def test_every_counts_updates() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.record_run(model, only="weight.grad", step="update", every=2) as live:
        for _ in range(5):
            trained(model, optimizer)
    assert live["weight.grad"].steps.tolist() == [0, 2, 4]


def test_variables_of_the_loop_are_in_the_same_steps() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.record_run(model, only=["forward", "loss"], step="update") as live:
        for number in range(4):
            loss = model(torch.ones(2, 3)).mean() / 2
            loss.backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
    assert live["loss"].steps.tolist() == live["forward"].steps.tolist() == [0, 0, 1, 1]


def test_bad_choices_say_what_to_pass() -> None:
    with pytest.raises(insitu.ChoiceError, match="step='updates' is not one of 'call', 'update'; did you mean"):
        insitu.record_run(nn.Linear(1, 1), step="updates")
    with pytest.raises(insitu.ChoiceError, match="pass the model"):
        insitu.record_run(only="loss", step="update")


def test_nothing_recorded_says_that_no_call_had_gradients() -> None:
    model = nn.Linear(3, 1)
    with (
        pytest.warns(insitu.InsituWarning, match="not called with gradients"),
        insitu.record_run(model, only="forward", step="update"),
        torch.no_grad(),
    ):
        model(torch.ones(2, 3))
