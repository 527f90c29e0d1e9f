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


def models() -> Iterator[Model]:
    """One that runs, one that ends the process when it is traced, one that cannot be built, one that ends it always."""
    yield Model("here/runs", lambda: inferring(nn.Linear(2, 2), torch.ones(2)))
    yield Model("here/dies traced", lambda: inferring(Deadly(), torch.ones(2)))
    yield Model("here/fails", failing)
    yield Model("here/dies", lambda: os._exit(4))


def failing() -> Program:
    """A model that does not even run alone."""
    raise ValueError("no such config")
