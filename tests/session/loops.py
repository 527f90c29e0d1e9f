"""Training loops for the tests of recorded variables; pytest does not rewrite this file, so insitu can."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """A model with one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The output of the layer."""
        out: Tensor = self.head(x)
        return out


def optimizer_of(net: nn.Module) -> torch.optim.Optimizer:
    """An optimizer of a model."""
    return torch.optim.SGD(net.parameters(), 0.1)


def fit(net: nn.Module, optimizer: torch.optim.Optimizer, passes: int = 3) -> list[float]:
    """A training loop with variables before and after the update."""
    losses: list[float] = []
    for number in range(passes):
        x = torch.full((2, 3), float(number))
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        last = number * 10
    return [*losses, float(last)]


def evaluate(net: nn.Module) -> float:
    """A loop without an update."""
    error = 0.0
    with torch.no_grad():
        for _ in range(2):
            error += net(torch.ones(1, 3)).numel()
    return error


def loss_of(output: Tensor) -> Tensor:
    """A function that is called after the model."""
    square = output * output
    return square.mean()


def fit_with_functions(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """A training loop that leaves the loss to a function, and evaluates after each update."""
    for number in range(3):
        loss = loss_of(net(torch.full((2, 3), float(number))))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        evaluate(net)


def one_step(net: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    """One step of a training, without a loop."""
    batch = torch.full((2, 3), float(number))
    loss = net(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Trainer:
    """A loop in a method, with its loss in an attribute."""

    def __init__(self) -> None:
        self.net = Net()
        self.optimizer = optimizer_of(self.net)
        self.loss = torch.zeros(())

    def run(self, passes: int) -> None:
        """Train."""
        for _ in range(passes):
            self.loss = self.net(torch.ones(2, 3)).mean()
            self.optimizer.zero_grad()
            self.loss.backward()
            self.optimizer.step()


def count_up(first: int, barrier: threading.Barrier) -> int:
    """A loop without torch, at the same time as others."""
    barrier.wait()
    loss = 0
    for number in range(50):
        loss = first + number
    return loss


def hidden_tensors(net: nn.Module) -> list[weakref.ref[Any]]:
    """A loop whose loss has a graph; weak references to tensors in it."""
    found = []
    for _ in range(2):
        hidden = net(torch.ones(2, 3))
        loss = hidden.square().mean()
        found.append(weakref.ref(hidden))
        del hidden
    del loss
    return found


class Replacer:
    """Frees its loss before it computes the next one."""

    loss: Tensor | None = None

    def replace_all(self, passes: int) -> None:
        """A loop that never binds the loss itself."""
        for number in range(passes):
            self.step(number)

    def step(self, number: int) -> None:
        """Replace the loss."""
        self.loss = None
        self.loss = torch.full((1,), float(number))


def set_attributes(kind: Any) -> None:
    """Objects of a class, with an attribute that is set later."""
    for number in range(2):
        value = kind()
        value.other = number
