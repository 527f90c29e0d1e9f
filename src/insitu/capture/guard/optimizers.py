"""What a guard sees of an optimizer: how often it steps, and whether it meets the gradients of its last step again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from torch import Tensor

from insitu.capture.deferral import Deferral
from insitu.capture.finite import is_finite, total
from insitu.capture.guard.places import Occurrence
from insitu.capture.guard.schedules import UNSCHEDULED
from insitu.capture.torch_internals import version_counter
from insitu.trace.event import Call
from insitu.trace.health import SPENT, OptimizerHistory


@dataclass(frozen=True, slots=True)
class LeftGradient:
    """The gradient of one parameter as a step left it; autograd counts its versions."""

    parameter: weakref.ref[Tensor]
    gradient: weakref.ref[Tensor]
    version: int

    def current_version(self) -> int | None:
        """The version of the gradient now, if the parameter still has it."""
        parameter, gradient = self.parameter(), self.gradient()
        if parameter is None or gradient is None or parameter.grad is not gradient:
            return None
        return version_counter(gradient)


class OptimizerSteps:
    """The steps of an optimizer; `bad` are the ids of its parameters that are known not to be finite.

    `moved` are the ids of those that had a gradient at a step, `idle` the shapes of those that had none at the last
    one, and `returns` says how often it stepped after another optimizer. `groups` are the ids of its groups. `made` and
    `schedule` say when it, and the schedule of its learning rate, were made.
    """

    def __init__(self, optimizer: Any, made: Occurrence, deferral: Deferral | None = None) -> None:
        self.ref = weakref.ref(optimizer)
        self.made = made
        self.groups = set(map(id, optimizer.param_groups))
        self.moved: set[int] = set()
        self.idle: list[tuple[int, ...]] = []
        self.returns = 0
        self.schedule = UNSCHEDULED
        self.name = type(optimizer).__name__
        self.bad = bad_parameters(parameters_of(optimizer), deferral)
        self.steps = 0
        self.rate = self._last_rate = 0.0
        self._spent_since: int | None = None  # the first of the last steps whose learning rate is next to nothing
        self._stale_steps = 0
        self._left: LeftGradient | None = None
        self._is_added = False
        self._place: Call | None = None

    def places(self) -> dict[int, str]:
        """What to call the parameters that are in no module that was called, by id; none if the optimizer is gone."""
        optimizer = self.ref()
        if optimizer is None:
            return {}
        return places_in(optimizer)

    def new_bad(self, parameters: list[Tensor]) -> list[Tensor]:
        """The parameters that are not finite since the last step."""
        if all(map(isfinite, map(total, parameters))):
            return []
        new = [each for each in parameters if id(each) not in self.bad and not is_finite(each)]
        self.bad.update(map(id, new))
        return new

    def leave(self, parameters: list[Tensor]) -> None:
        """The step is over: remember the gradient of one parameter as it is now."""
        self._left, self._is_added = None, False
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is not None:
                self._left = LeftGradient(weakref.ref(parameter), weakref.ref(gradient), version_counter(gradient))
                break

    def begin_backward(self) -> None:
        """If anybody else has written to the gradient, it was set to zero."""
        if self._left is not None and self._left.current_version() != self._left.version:
            self._left = None

    def end_backward(self, place: Callable[[], Call]) -> None:
        """If it was written to now, this pass was added to the gradient that the last step left."""
        left = self._left
        if left is None:
            return
        version = left.current_version()
        if version is not None and version > left.version:
            self._left = replace(left, version=version)
            self._is_added = True
            self._place = self._place or place()

    def begin_step(self, optimizer: Any) -> None:
        """The next step begins."""
        is_left = self._left is not None and self._left.current_version() is not None
        self._stale_steps += self._is_added and is_left
        rate = self._last_rate = max(map(rate_of, optimizer.param_groups))
        if rate > self.rate:
            self.rate = rate
        if rate > SPENT * self.rate:
            self._spent_since = None
        elif self._spent_since is None:
            self._spent_since = self.steps

    def see_moved(self, optimizer: Any) -> None:
        """Look which parameters have a gradient."""
        parameters = parameters_of(optimizer)
        self.moved.update(id(each) for each in parameters if each.grad is not None)
        self.idle = [tuple(each.shape) for each in parameters if each.grad is None]

    def history(self) -> OptimizerHistory:
        """The steps as plain data."""
        return OptimizerHistory(
            self.name,
            self.steps,
            self.rate,
            self._stale_steps,
            self._place,
            site=self.made.site,
            schedule=self.schedule.moment.site,
            spent_since=self._spent_since,
            last_rate=self._last_rate,
            numbers=self.schedule.numbers,
        )


def bad_parameters(parameters: list[Tensor], deferral: Deferral | None) -> set[int]:
    """The ids of the parameters that are not finite; the sums of those on accelerators come over together."""
    if deferral is None or not any(map(deferral.applies_to, parameters)):
        return {id(parameter) for parameter in parameters if not is_finite(parameter)}
    found = zip(parameters, deferral.totals(parameters), strict=True)
    return {id(parameter) for parameter, total in found if not isfinite(total)}


def rate_of(group: Any) -> float:
    """The learning rate of a group of parameters."""
    return float(group.get("lr", 1.0))


def parameters_of(optimizer: Any) -> list[Tensor]:
    """The parameters of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def places_in(optimizer: Any) -> dict[int, str]:
    """What to call the parameters of an optimizer that are in no module that was called, by id."""
    name = type(optimizer).__name__
    return {
        id(parameter): f"{name}.param_groups[{number}]['params'][{index}]"
        for number, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
    }
