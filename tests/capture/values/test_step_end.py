"""What the journal has at each moment of a training, as a process that was killed then would leave it."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import insitu

X = torch.tensor([[1.0, 2.0]])


def there(recorded: Any, path: str) -> list[float]:
    """The first number of each value that the journal has now."""
    run = recorded.run
    return [float(np.asarray(value).reshape(-1)[0]) for value in run[path]] if path in run else []


def is_open(recorded: Any) -> bool:
    """Whether the journal says that its last step had not ended."""
    return any("had not ended" in text for text in recorded.run.missing)


def number(tensor: Tensor) -> float:
    return tensor.detach().reshape(-1)[0].item()


def test_step_is_written_when_the_optimizer_has_stepped() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with insitu.record_run(net, only=["forward", "weight", "weight.grad"], keep="values") as recorded:
        for step in range(3):
            optimizer.zero_grad()
            out = net(X)
            assert len(there(recorded, "forward")) == step + 1 and is_open(recorded)
            out.sum().backward()
            optimizer.step()
            assert there(recorded, "weight.grad") == [1.0] * (step + 1)
            assert there(recorded, "weight")[-1] == number(net.weight) and not is_open(recorded)
    assert recorded["weight"].steps.tolist() == recorded["weight.grad"].steps.tolist() == [0, 1, 2]
    assert recorded.run.complete and recorded.run.steps.tolist() == [0, 1, 2]


@pytest.mark.parametrize("keep", ["values", {"**": "stats"}])
def test_parameter_changed_after_the_update_is_recorded_once_with_its_last_value(keep: Any) -> None:
    net, expected = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with insitu.record_run(net, only=["weight", "bias"], keep=keep) as recorded:
        for _ in range(3):
            optimizer.zero_grad()
            net(X).sum().backward()
            optimizer.step()
            with torch.no_grad():
                net.weight.data.clamp_(-0.01, 0.01)  # a critic, whose weights are clipped
            expected.append(number(net.weight.max()))
    path = "weight" if keep == "values" else "weight.max"
    series = recorded[path]
    assert series.steps.tolist() == [0, 1, 2] and recorded.run.complete
    assert [float(np.max(value)) for value in series.values] == pytest.approx(expected, rel=1e-6)


def test_an_update_by_hand_belongs_to_its_step(tmp_path: Any) -> None:
    net, expected = nn.Linear(2, 1, bias=False), []
    with insitu.record_run(net, only=["weight", "weight.grad"], keep="values", to=tmp_path / "run.h5"):
        for _ in range(3):
            net.zero_grad()
            net(X).sum().backward()
            with torch.no_grad():
                net.weight -= 0.1 * net.weight.grad  # type: ignore[operator]
            expected.append(number(net.weight))
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["weight"].values[:, 0, 0].tolist() == pytest.approx(expected, rel=1e-6)
        assert run["weight.grad"].steps.tolist() == [0, 1, 2] == run.steps.tolist() and run.complete


def test_step_with_two_optimizers_records_both_updates() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizers = [torch.optim.SGD(part.parameters(), 0.1) for part in net]
    with insitu.record_run(net, only=["**.weight", "**.weight.grad"], keep="values") as recorded:
        for step in range(2):
            for optimizer in optimizers:
                optimizer.zero_grad()
            net(X).sum().backward()
            optimizers[0].step()
            assert is_open(recorded)
            optimizers[1].step()
            assert not is_open(recorded)
            for part in (0, 1):
                assert there(recorded, f"{part}.weight")[-1] == number(net[part].weight)  # type: ignore[arg-type]
                assert len(there(recorded, f"{part}.weight.grad")) == step + 1
    assert recorded["0.weight"].calls.tolist() == [0, 0] == recorded["1.weight"].calls.tolist()


def test_update_that_a_scaler_skips_is_written_with_the_next_step() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    with insitu.record_run(net, only=["weight", "weight.grad"], keep="values") as recorded:
        for factor in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(net(X).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
            assert is_open(recorded) == (factor != 1.0)
    assert recorded["weight"].steps.tolist() == recorded["weight.grad"].steps.tolist() == [0, 1, 2]
    assert np.isfinite(recorded["weight.grad"].values[:, 0, 0]).tolist() == [True, False, True]


def test_step_without_gradients_ends_with_the_call() -> None:
    net = nn.BatchNorm1d(2)
    with torch.no_grad(), insitu.record_run(net, only=["forward", "running_mean", "weight"], keep="values") as recorded:
        for step in range(2):
            net(torch.ones(4, 2) * step)
            assert net.running_mean is not None
            assert there(recorded, "running_mean")[-1] == number(net.running_mean) and not is_open(recorded)
            assert len(there(recorded, "weight")) == step + 1


def test_announced_step_is_open_until_end_step() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with insitu.record_run(net, only=["forward", "weight", "weight.grad"], keep="values") as recorded:
        for step in range(2):
            recorded.step()
            optimizer.zero_grad()
            for _ in range(3):
                net(X).sum().backward()
            assert len(there(recorded, "forward")) == 3 * (step + 1) and is_open(recorded)
            optimizer.step()
            assert there(recorded, "weight.grad")[-1] == 3.0
            recorded.end_step()
            assert not is_open(recorded)
    assert recorded["forward"].calls.tolist() == [0, 1, 2] * 2 and recorded["weight"].steps.tolist() == [0, 1]


def test_steps_with_the_same_number_are_recorded_separately() -> None:
    net = nn.Linear(2, 1)
    with insitu.record_run(net, only="weight", keep="values") as recorded:
        for _ in range(2):
            recorded.step(7)
            net(X)
    assert recorded["weight"].steps.tolist() == [7, 7]


def test_an_evaluation_between_updates_is_a_step_of_its_own() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with insitu.record_run(net, only=["weight", "weight.grad"], keep="values") as recorded:
        for _ in range(2):
            net(X).sum().backward()
            optimizer.step()
            with torch.no_grad():
                net(X)
            assert not is_open(recorded)
    assert recorded["weight"].steps.tolist() == [0, 1, 2, 3] and recorded["weight.grad"].steps.tolist() == [0, 2]


def test_a_function_gets_each_value_of_a_step_once() -> None:
    net, taken = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    only = ["forward", "weight", "weight.grad"]
    with insitu.record_run(net, only=only, to=lambda path, value, step, rank: taken.append((path, step))):
        for _ in range(2):
            optimizer.zero_grad()
            net(X).sum().backward()
            optimizer.step()
    assert sorted(taken) == [(path, step) for path in only for step in (0, 1)]


def test_value_whose_copying_is_interrupted_is_named_as_missing() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            h = x + 1
            return h * 2

    def keep(tensor: Tensor) -> Tensor:
        signal.raise_signal(signal.SIGINT)
        return tensor

    net = Slow()
    session = insitu.record_run(net, only=["forward.h", "forward.x"], keep={"forward.h": keep, "**": "values"})
    told = pytest.warns(insitu.InsituWarning, match="KeyboardInterrupt while")
    with pytest.raises(KeyboardInterrupt), told, session as recorded:
        net(X)
    assert recorded["forward.x"].steps.tolist() == [0] and not recorded.run.complete
    assert any("'forward.h'" in text and "KeyboardInterrupt" in text for text in recorded.run.missing)


def test_exception_of_an_alarm_reaches_the_user() -> None:
    def alarm(number: int, frame: Any) -> None:
        raise TimeoutError

    def keep(tensor: Tensor) -> Tensor:
        signal.raise_signal(signal.SIGALRM)
        return tensor

    net, before = nn.Linear(2, 1), signal.signal(signal.SIGALRM, alarm)
    try:
        session = insitu.record_run(net, only=["forward.input"], keep=keep, to=lambda *of: None)
        with pytest.raises(TimeoutError), pytest.warns(insitu.InsituWarning), session:
            net(X)
    finally:
        signal.signal(signal.SIGALRM, before)
