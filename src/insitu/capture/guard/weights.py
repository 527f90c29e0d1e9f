"""The weights of a training: whether each got a gradient, how large it was, and whether the weight changed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from insitu.capture.changes import tensor_print
from insitu.capture.isolation import run_isolated
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

    def add_sample(self, norm: float) -> None:
        """Its gradient has this norm."""
        if norm <= self.peak:
            return
        self.peak, self.norm = norm, 0.0
        if norm > 1:
            self.norm = norm_of(self.ref())

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
    return (values.sum(dtype=torch.float64).item(), torch.linalg.vector_norm(values, dtype=torch.float64).item())


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
        for (weight, _), norm, mean in zip(grads, norms, each, strict=True):
            weight.add_sample(norm)
            if top > 0:  # where all are zero, there is nothing left to learn
                weight.add_share(mean / top)


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
    if norms[0].is_cpu:
        return list(map(Tensor.item, norms))
    return torch.stack(list(map(Tensor.cpu, norms))).tolist()


def norm_of(parameter: Tensor | None) -> float:
    """The norm of a parameter."""
    if parameter is not None:
        return float(torch.linalg.vector_norm(parameter.detach().float()))
    return 0.0
