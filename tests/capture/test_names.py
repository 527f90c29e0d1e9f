"""The paths of modules in sessions without a model: they do not depend on what else is called, or when."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import insitu


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Linear(3, 3)
        self.parts = nn.ModuleList([nn.Linear(3, 3)])

    def forward(self, x: Tensor) -> Tensor:
        return self.parts[0](self.conv(x))


class Other(Net):
    pass


class Scale(nn.Module):
    """A transform: it has no parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return x / 255


X = torch.ones(2, 3)


def paths(trace: insitu.Trace) -> list[str]:
    return [call.path for call in trace.calls if call.kind == "module"]


@pytest.mark.parametrize("first", [True, False])
def test_a_transform_or_a_loss_does_not_change_the_paths_of_the_model(first: bool) -> None:
    net, scale, loss = Net(), Scale(), nn.MSELoss()
    with insitu.record() as trace:
        x = scale(X) if first else X
        loss(net(x), x)
        scale(x)
    assert [path for path in paths(trace) if path not in ("Scale", "MSELoss")] == ["", "conv", "parts.0"]
    assert paths(trace)[-2:] == ["MSELoss", "Scale"]


def test_a_module_alone_has_the_empty_path() -> None:
    with insitu.record() as trace:
        nn.Sequential(Scale())(X)
    assert paths(trace) == ["", "0"]


@pytest.mark.parametrize("swapped", [False, True])
def test_two_models_have_the_same_paths_in_any_order(swapped: bool) -> None:
    models = [Net(), Other()]
    with insitu.record() as trace:
        for model in reversed(models) if swapped else models:
            model(X)
    names = ["Net", "Net.conv", "Net.parts.0", "Other", "Other.conv", "Other.parts.0"]
    assert sorted(paths(trace)) == names
    assert paths(trace)[0] == ("Other" if swapped else "Net")


def test_a_part_that_is_called_before_its_model_has_the_path_in_the_model() -> None:
    net = Net()
    with insitu.record() as trace:
        net.conv(X)
        net(X)
    assert paths(trace) == ["conv", "", "conv", "parts.0"]


def test_paths_that_were_read_in_between_are_put_right() -> None:
    net, other = Net(), Other()
    with insitu.record() as trace:
        net(X)
        assert paths(trace) == ["", "conv", "parts.0"]
        other(X)
    assert paths(trace)[:3] == ["Net", "Net.conv", "Net.parts.0"]


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Linear(3, 3)
        self.parts = nn.ModuleList()

    def forward(self, x: Tensor) -> Tensor:
        self.late = nn.Linear(3, 3)
        self.parts.append(nn.Sequential(nn.Linear(3, 3)))
        return self.parts[-1](self.late(self.conv(x)))


@pytest.mark.parametrize("given", [False, True])
def test_a_module_that_is_assigned_in_forward_has_the_path_of_the_attribute(given: bool) -> None:
    net = Growing()
    with insitu.record(net) if given else insitu.record() as trace:
        net(X)
        net(X)
    assert paths(trace) == ["", "conv", "late", "parts.0", "parts.0.0", "", "conv", "late", "parts.1", "parts.1.0"]


def test_a_module_that_is_made_in_each_forward_has_the_same_path_each_time() -> None:
    class Fresh(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.ReLU()(nn.Linear(3, 3)(nn.Linear(3, 3)(x)))

    net = Fresh()
    with insitu.record(net) as trace:
        for _ in range(3):
            net(X)
    assert paths(trace) == ["", "Linear", "Linear#2", "ReLU"] * 3


def test_a_module_that_holds_its_caller_has_a_path() -> None:
    class Holder(nn.Module):
        def __init__(self, outer: nn.Module) -> None:
            super().__init__()
            self.outer = outer

        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return Holder(self)(self.conv(x))

    net = Outer()
    with insitu.record() as trace:
        net(X)
    assert paths(trace) == ["", "conv", "Holder"]
