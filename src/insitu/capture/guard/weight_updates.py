"""How much steps of an optimizer change its weights: the norm of the update, as a share of the norm of the weight."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from insitu.capture.guard.optimizers import parameters_of
from insitu.capture.guard.weights import norms_of
from insitu.capture.isolation import run_isolated
from insitu.capture.tensor_memory import has_values
from insitu.trace.health_numbers import UpdateHistory

MOST_ELEMENTS = 1 << 24  # of all weights that are copied for one step
MOST_SAMPLES = 16


@dataclass(slots=True)
class SampledWeight:
    """A weight whose updates were measured; the model may be gone at the end, so its path is kept."""

    ref: weakref.ref[Tensor]
    path: str
    scale: float
    ratios: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)


class WeightUpdates:
    """The weights of all optimizers of one guard. Copies of weights exist only while a sampled step runs."""

    def __init__(self, paths: Callable[[], dict[int, str]]) -> None:
        self._paths = paths
        self._weights: dict[int, SampledWeight] = {}
        self._before: dict[int, list[tuple[Tensor, Tensor]]] = {}  # by the id of the optimizer

    def begin(self, optimizer: Any) -> None:
        """A step that is sampled begins."""
        self._before[id(optimizer)] = run_isolated(lambda: copies_of(parameters_of(optimizer)))

    def end(self, optimizer: Any) -> None:
        """A step has ended."""
        before = self._before.pop(id(optimizer), None)
        if before:
            rate = max((float(group.get("lr", 0.0)) for group in optimizer.param_groups), default=0.0)
            run_isolated(lambda: self._measure(before, rate))

    def _measure(self, before: list[tuple[Tensor, Tensor]], rate: float) -> None:
        norms = norms_of([copy for _, copy in before])
        changes = norms_of([parameter.detach() - copy for parameter, copy in before])
        self._see(
            [(parameter, norm / sqrt(copy.numel())) for (parameter, copy), norm in zip(before, norms, strict=True)]
        )
        for (parameter, _), norm, change in zip(before, norms, changes, strict=True):
            weight = self._weights.get(id(parameter))
            if norm > 0 and weight is not None:
                weight.ratios.append(change / norm)
                weight.rates.append(rate)
                del weight.ratios[:-MOST_SAMPLES], weight.rates[:-MOST_SAMPLES]

    def _see(self, weights: list[tuple[Tensor, float]]) -> None:
        """See weights, each with its scale, of which some may be new."""
        new = [(parameter, scale) for parameter, scale in weights if not self._is_known(parameter)]
        if not new:
            return
        paths = self._paths()
        for parameter, scale in new:
            path = paths.get(id(parameter), "")
            self._weights[id(parameter)] = SampledWeight(weakref.ref(parameter), path, scale)

    def _is_known(self, parameter: Tensor) -> bool:
        known = self._weights.get(id(parameter))
        return known is not None and known.ref() is parameter

    def histories(self) -> Iterator[UpdateHistory]:
        """The updates as plain data, of the weights whose paths are known."""
        for weight in self._weights.values():
            if weight.path:
                yield UpdateHistory(weight.path, tuple(weight.ratios), tuple(weight.rates), weight.scale)


def copies_of(parameters: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Copies of the matrices that have a gradient, as long as these are not too large."""
    found: list[tuple[Tensor, Tensor]] = []
    room = MOST_ELEMENTS
    for parameter in parameters:
        is_matrix = parameter.dim() > 1 and parameter.grad is not None and parameter.layout is torch.strided
        if not is_matrix or not parameter.is_floating_point() or not has_values(parameter):
            continue
        room -= parameter.numel()
        if room < 0:
            break
        found.append((parameter, parameter.detach().clone()))
    return found
