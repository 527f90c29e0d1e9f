"""Models that end the process they run in, for the tests of what runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import torch
from tests.zoo.model import Model
from tests.zoo.programs import Program, inferring
from torch import Tensor, nn


class Deadly(nn.Module):
    """Ends the process when it is traced by a mode of the tool."""

    def forward(self, x: Tensor) -> Tensor:
        if torch._C._len_torch_function_stack():
            os._exit(3)
        return x + 1


eaten: list[str] = []


def greedy() -> Program:
    """A model that runs, and leaves no memory to the others of its process."""
    eaten.append("all")
    return inferring(nn.Linear(2, 2), torch.ones(2))


def starving() -> Program:
    """A model that runs where there is memory."""
    if eaten:
        raise MemoryError
    return inferring(nn.Linear(2, 2), torch.ones(2))


def models() -> Iterator[Model]:
    """Two that run, one that ends the process when it is traced, one that cannot be built, one that ends it always."""
    yield Model("here/runs", greedy)
    yield Model("here/starves", starving)
    yield Model("here/dies traced", lambda: inferring(Deadly(), torch.ones(2)))
    yield Model("here/fails", failing)
    yield Model("here/dies", lambda: os._exit(4))


def failing() -> Program:
    """A model that does not even run alone."""
    raise ValueError("no such config")
