"""The programs that run a model of the zoo once: to use it, and to train it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

Program = tuple[nn.Module, Callable[[], Any]]


def inferring(model: nn.Module, *inputs: Any, **named: Any) -> Program:
    """A model in eval mode, and a program that returns its output."""
    model.eval()

    def run() -> Any:
        with torch.no_grad():
            return model(*inputs, **named)

    return model, run


def training(model: nn.Module, *inputs: Any, **named: Any) -> Program:
    """A model in train mode, and a program that returns its output and the gradients of the sum of it."""
    model.train()

    def run() -> Any:
        output = model(*inputs, **named)
        total(output).backward()
        return output, {name: parameter.grad for name, parameter in model.named_parameters()}

    return model, run


def total(output: Any) -> Tensor:
    """The sum of all numbers in an output that have a gradient; scores that a model masks by -inf do not count."""
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.requires_grad]
    return torch.stack([leaf.float().masked_fill(leaf == -torch.inf, 0.0).sum() for leaf in leaves]).sum()
