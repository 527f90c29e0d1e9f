"""Gradients that several backward passes add up for one step: how many, and whether the loss is divided by that."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import FrameType

from torch import Tensor

from insitu.capture.explain.reading import Reading
from insitu.capture.guard.cut import producers
from insitu.capture.guard.facts import input_values
from insitu.capture.guard.optimizers import LeftGradient, OptimizerSteps
from insitu.capture.guard.places import Place, place_of, site_at
from insitu.capture.guard.sampling import is_due
from insitu.capture.tensors import Value
from insitu.capture.torch_internals import version_counter
from insitu.trace.event import Call, Site
from insitu.trace.loss_input import LOSSES
from insitu.trace.operation import Operation
from insitu.trace.step_health import AccumulationHistory

MOST_CALLS = 24  # behind the tensor of a backward pass: the reduction is near
MOST_DISTANT = 2000  # behind the tensor of a backward pass: a split of the batch is far
SUMS = frozenset({"add", "sub", "radd"})
SPLITS = frozenset({"split", "chunk", "tensor_split", "split_with_sizes"})


@dataclass(slots=True)
class SampledLosses:
    """The losses of the backward passes that were looked at; `other` counts those that are not a plain mean.

    `places` are those of all backward passes.
    """

    other: int = 0
    places: set[Place] = field(default_factory=set)
    loss: Call | None = None
    backward: Call | None = None
    has_split: bool = False


class Accumulation:
    """Counts the backward passes that add to the same gradient before an optimizer uses it."""

    def __init__(self) -> None:
        self._added = 0  # passes whose gradients are added up now
        self._growths = 0  # passes that have added to others, in all
        self._left: LeftGradient | None = None
        self._counts: dict[int, Counter[int]] = {}
        self._rewritten: Counter[int] = Counter()
        self._losses = SampledLosses()
        self._step: Site | None = None

    def begin_backward(self) -> None:
        """If the gradient was written to since the last pass, it was set to zero or scaled: count anew."""
        if self._left is not None and self._left.current_version() != self._left.version:
            self._left, self._added = None, 0

    def end_backward(self, place: Place, parameters: Iterable[Tensor | None]) -> None:
        """A backward pass, which was run at a place, has ended: whether it has added to the gradient of the last."""
        left = self._left
        self._losses.places.add(place)
        if left is None:
            self._left = gradient_of(parameters)
            self._added = int(self._left is not None)
            return
        version = left.current_version()
        if version is not None and version > left.version:
            self._left = replace(left, version=version)
            self._added += 1
            self._growths += 1

    @property
    def is_due(self) -> bool:
        """Whether the last pass has added to the gradient of the one before, and its loss is to be looked at."""
        return self._added > 1 and is_due(self._growths - 1)

    def look_at_loss(self, reading: Reading, at: int, *, is_scaled: bool) -> None:
        """Look how the loss of a backward pass was reduced."""
        losses = self._losses
        mean = mean_behind(reading, input_values(reading, at), is_scaled=is_scaled)
        if mean is None:
            losses.other += 1
            return
        if losses.backward is None:
            losses.backward, losses.loss = reading.call(at), reading.call(mean)
            losses.has_split = has_split(reading, input_values(reading, at))

    def begin_step(self, key: int, frame: FrameType, *, is_scaled: bool) -> None:
        """An optimizer is about to use the gradients."""
        if self._left is not None:
            writes = (self._left.current_version() or 0) - self._left.version
            self._counts.setdefault(key, Counter())[self._added] += 1
            self._rewritten[key] += writes != int(is_scaled)  # a scaler divides the gradients once
        if self._added > 1 and self._step is None:
            self._step = site_at(place_of(frame))
        self._added, self._left = 0, None

    def histories(self, optimizers: dict[int, OptimizerSteps]) -> list[AccumulationHistory]:
        """What was seen, for each optimizer, as plain data."""
        losses = self._losses
        if losses.backward is None or losses.loss is None:
            return []
        return [
            AccumulationHistory(
                optimizer=optimizers[key].name,
                passes=counts.most_common(1)[0][0],
                steps=counts.total(),
                usual_steps=counts.most_common(1)[0][1],
                rewritten_steps=self._rewritten[key],
                has_other_losses=bool(losses.other) or len(losses.places) > 1,
                has_split=losses.has_split,
                optimizers=len(self._counts),
                backward=losses.backward,
                loss=losses.loss,
                step=self._step,
            )
            for key, counts in self._counts.items()
            if key in optimizers
        ]


def gradient_of(parameters: Iterable[Tensor | None]) -> LeftGradient | None:
    """The first gradient there is, with its version."""
    for parameter in parameters:
        if parameter is None or not parameter.is_leaf or parameter.grad is None:
            continue
        return LeftGradient(weakref.ref(parameter), weakref.ref(parameter.grad), version_counter(parameter.grad))
    return None


def mean_behind(reading: Reading, losses: Iterable[Value], *, is_scaled: bool) -> int | None:
    """The call that took the mean which a loss is, or is a sum with; None if it is scaled, or is another number."""
    waiting = list(losses)
    for value in waiting:  # it grows meanwhile
        at = reading.producer(value)
        if at is None or len(waiting) > MOST_CALLS:
            continue
        what = reading.operation(at)
        if is_mean(reading, at, what):
            return at
        if passes_mean(reading, at, what, is_scaled=is_scaled):
            waiting += input_values(reading, at)
    return None


def passes_mean(reading: Reading, at: int, what: Operation, *, is_scaled: bool) -> bool:
    """Whether the result of a call is as large as its inputs: it moves or adds them, or a `GradScaler` scales them."""
    is_plain = what.is_move or what.base in SUMS
    return is_plain or (is_scaled and is_scaling(reading, at, what))


def is_mean(reading: Reading, at: int, what: Operation) -> bool:
    """Whether a call takes the mean over a batch."""
    if what.base == "mean":
        return True
    is_loss = what.base in LOSSES or what.base.endswith("_loss")
    return is_loss and reading.kwargs(at).get("reduction", "mean") == "mean"


def is_scaling(reading: Reading, at: int, what: Operation) -> bool:
    """Whether a call multiplies two tensors, as a `GradScaler` does."""
    return what.base == "mul" and all(isinstance(item, Value) for item in reading.args(at))


def has_split(reading: Reading, losses: Iterable[Value]) -> bool:
    """Whether something behind a loss is a part of a larger batch."""
    for count, at in enumerate(producers(reading, losses, set())):
        if count == MOST_DISTANT:
            return False
        if reading.operation(at).base in SPLITS and is_over_rows(reading, at):
            return True
    return False


def is_over_rows(reading: Reading, at: int) -> bool:
    """Whether a call splits a tensor along its first dimension."""
    dims = [reading.kwargs(at).get("dim", 0), *reading.args(at)[2:3]]
    return not any(dims)
