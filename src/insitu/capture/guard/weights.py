"""The weights of a training: whether each got a gradient, how large it was, and whether the weight changed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from insitu.capture.changes import tensor_print
from insitu.capture.isolation import run_isolated
from insitu.capture.ledger import widest
from insitu.capture.tensor_memory import has_values, local_part
from insitu.capture.torch_internals import foreach_norm

MOST_DIGESTED = 1 << 24  # elements of a tensor that is told apart by all its bytes


class Weight:
    """A parameter in a training; the fields are those of `trace.health.ParameterHistory`."""

    __slots__ = (
        *("before", "has_gradient", "has_optimizer", "is_trained", "norm", "path", "peak", "ref", "samples", "share"),
        *("rate", "was_frozen"),
    )

    def __init__(self, parameter: Tensor) -> None:
        self.ref = weakref.ref(parameter)
        self.before = content(parameter)
        self.was_frozen = not parameter.requires_grad
        self.has_gradient = self.has_optimizer = self.is_trained = False
        self.path = ""  # as it was when the modules were seen last: later they may be gone
        self.rate = 0.0
        self.forget_samples()

    def forget_samples(self) -> None:
        """Its gradients so far are not those that an optimizer uses."""
        self.peak = self.share = self.norm = 0.0
        self.samples = 0

    def add_sample(self, norm: float) -> bool:
        """Its gradient has this norm; whether its own norm is wanted as well."""
        if norm <= self.peak:
            return False
        self.peak, self.norm = norm, 0.0
        return norm > 1

    def add_share(self, share: float) -> None:
        """The mean of its gradient is this share of the largest one."""
        self.samples += 1
        self.share = max(self.share, share)

    def has_changed(self, parameter: Tensor) -> bool:
        """Whether it is other than when it was seen first."""
        return bool(content(parameter) != self.before)


def content(tensor: Tensor) -> Any:
    """What tells the values of a tensor from others: of a huge one, or one on another device, only two sums."""
    return run_isolated(lambda: content_of(tensor))


def content_of(tensor: Tensor) -> Any:
    """The same, where nobody notices."""
    values = local_part(tensor)
    if not has_values(values) or (values.is_cpu and values.numel() <= MOST_DIGESTED):
        return tensor_print(tensor)
    values = Tensor.detach(values)
    wide = widest(values.device)
    return DeviceSums(torch.stack((values.sum(dtype=wide), torch.linalg.vector_norm(values, dtype=wide))))


@dataclass(frozen=True, eq=False, slots=True)
class DeviceSums:
    """Two sums over a tensor, on its device until they are compared."""

    numbers: Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceSums) and self.numbers.tolist() == other.numbers.tolist()

    __hash__ = None  # type: ignore[assignment]


class Sample:
    """The gradients of some weights at one moment."""

    def __init__(self, weights: Iterable[Weight]) -> None:
        self.total = 0.0
        run_isolated(lambda: self._take(weights))

    def _take(self, weights: Iterable[Weight]) -> None:
        grads = [(weight, grad) for weight in weights if (grad := dense_grad(weight.ref())) is not None]
        norms = norms_of([grad for _, grad in grads])
        self.total = sqrt(sum(norm * norm for norm in norms))
        each = [norm / sqrt(max(grad.numel(), 1)) for norm, (_, grad) in zip(norms, grads, strict=True)]
        top = max(each, default=0.0)
        large = [weight for (weight, _), norm in zip(grads, norms, strict=True) if weight.add_sample(norm)]
        if top > 0:  # where all are zero, there is nothing left to learn
            for (weight, _), mean in zip(grads, each, strict=True):
                weight.add_share(mean / top)
        self._add_norms(large)

    def _add_norms(self, weights: list[Weight]) -> None:
        """Look how large some weights are themselves."""
        there = [(weight, parameter) for weight in weights if (parameter := weight.ref()) is not None]
        norms = norms_of([parameter.detach().float() for _, parameter in there])
        for (weight, _), norm in zip(there, norms, strict=True):
            weight.norm = norm


class Totals:
    """The norms of all gradients together: the first three that were seen, and the largest."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.largest = 0.0

    def add(self, total: float) -> None:
        """One more was seen."""
        if len(self.first) < 3:
            self.first.append(total)
        self.largest = max(self.largest, total)


def dense_grad(parameter: Tensor | None) -> Tensor | None:
    """The gradient of a parameter, if it can be read."""
    if parameter is None or not parameter.is_leaf:
        return None
    grad = parameter.grad
    if grad is None or grad.layout is not torch.strided:
        return None
    if not has_values(grad):
        return None
    return run_isolated(grad.detach)


def norms_of(tensors: list[Tensor]) -> list[float]:
    """The norms of tensors, which are brought over together."""
    if not tensors:
        return []
    norms = foreach_norm(tensors)
    is_alike = all(norm.dtype is norms[0].dtype and norm.device == norms[0].device for norm in norms)
    if not is_alike:
        norms = [norm.to("cpu", torch.float64) for norm in norms]
    return torch.stack(list(norms)).tolist()
