"""Callbacks that make one tensor of the values that came together."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch import Tensor

NUMBERS = (bool, int, float, complex, numpy.ndarray, numpy.generic)


def stack_tensors(name: str, values: list[Any], iterations: list[int], ranks: list[int] | None = None) -> None:
    """Replace the values by one tensor of them all; they must have one shape.

    >>> values = [torch.zeros(2), torch.ones(2)]
    >>> stack_tensors("forward", values, [1, 2])
    >>> values
    [tensor([[0., 0.],
            [1., 1.]])]
    """
    values[:] = [torch.stack(tensors(name, values)) if values else torch.tensor([])]


def stack_padded_tensors(name: str, values: list[Any], iterations: list[int], ranks: list[int] | None = None) -> None:
    """Replace the values by one tensor of them all; smaller ones get zeros behind, and new dimensions in front.

    >>> values = [torch.ones(1), torch.ones(2)]
    >>> stack_padded_tensors("forward", values, [1, 2])
    >>> values
    [tensor([[1., 0.],
            [1., 1.]])]
    """
    values[:] = [padded(tensors(name, values)) if values else torch.tensor([])]


def tensors(name: str, values: list[Any]) -> list[Tensor]:
    """The values as tensors of one dtype, which holds them all."""
    strange = [type(value).__name__ for value in values if not isinstance(value, (Tensor, *NUMBERS))]
    if strange:
        raise TypeError(f"the values of {name!r} cannot be stacked: there is a {strange[0]} among them")
    found = [value if isinstance(value, Tensor) else torch.as_tensor(value) for value in values]
    dtype = found[0].dtype
    for tensor in found[1:]:
        if tensor.dtype != dtype:
            dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in found]


def padded(found: list[Tensor]) -> Tensor:
    """One tensor of those given, each at the beginning of its own part."""
    most = max(tensor.ndim for tensor in found)
    found = [tensor[(None,) * (most - tensor.ndim)] for tensor in found]
    sizes = [max(tensor.shape[index] for tensor in found) for index in range(most)]
    if all(list(tensor.shape) == sizes for tensor in found):
        return torch.stack(found)
    stacked = torch.zeros(len(found), *sizes, dtype=found[0].dtype, device=found[0].device)
    for part, tensor in zip(stacked, found, strict=True):
        part[tuple(slice(size) for size in tensor.shape)] = tensor
    return stacked
