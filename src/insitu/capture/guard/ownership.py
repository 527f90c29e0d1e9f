"""Who owns the parameters: when optimizers were made and parameters assigned, and which optimizers step in turns."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from typing import Any

from torch import Tensor, nn

from insitu.capture.guard.method_calls import (
    MethodListener,
    Trouble,
    module_copy,
    optimizer_creation,
    parameter_assignment,
    schedule_creation,
)
from insitu.capture.guard.optimizers import OptimizerSteps
from insitu.capture.guard.places import BEFORE, Occurrence, place_of
from insitu.capture.guard.schedules import UNSCHEDULED, Schedule, named_numbers
from insitu.capture.torch_internals import PARAMETERS
from insitu.trace.step_health import NONE_LATE, LateParameters, SharedParameters

MOST_REMEMBERED = 1 << 16  # parameters whose assignment is remembered

NUMBER = attrgetter("number")
CALLER = 3  # frames above what hears: the listener, the replacement of the method, and who called it


@dataclass(frozen=True, slots=True)
class Assignment:
    """A parameter that a module got, and when; `path` is a name for it where nobody knows its model."""

    parameter: weakref.ref[Tensor]
    module: weakref.ref[nn.Module]
    moment: Occurrence
    path: str

    @property
    def has_gradient(self) -> bool:
        """Whether the parameter is there and has a gradient."""
        parameter = self.parameter()
        return parameter is not None and parameter.is_leaf and parameter.grad is not None


class Ownership:
    """Remembers where optimizers and parameters come from."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._count = 0
        self._made: weakref.WeakKeyDictionary[Any, Occurrence] = weakref.WeakKeyDictionary()
        self._schedules: weakref.WeakKeyDictionary[Any, Schedule] = weakref.WeakKeyDictionary()
        self._assigned: dict[int, Assignment] = {}
        self._last: OptimizerSteps | None = None

    def start(self, undo: ExitStack) -> None:
        """Listen to what is made from now on."""
        optimizer_creation.listen(MethodListener(self._on_optimizer, self._trouble), undo)
        parameter_assignment.listen(MethodListener(self._on_parameter, self._trouble), undo)
        module_copy.listen(MethodListener(self._on_copy, self._trouble), undo)
        schedule_creation.listen(MethodListener(self._on_schedule, self._trouble), undo)

    def creation_of(self, optimizer: Any) -> Occurrence:
        """When an optimizer was made."""
        return self._made.get(optimizer, BEFORE)

    def begin_step(self, steps: OptimizerSteps, optimizer: Any, *, is_sampled: bool) -> None:
        """An optimizer steps."""
        if self._last is not None and self._last is not steps:
            steps.returns += 1
        self._last = steps
        if is_sampled:
            steps.see_moved(optimizer)
            steps.schedule = self._schedules.get(optimizer, UNSCHEDULED)

    @staticmethod
    def shared(optimizers: Iterable[OptimizerSteps], paths: dict[int, str]) -> Iterator[SharedParameters]:
        """The parameters that two optimizers move in turns, with their paths."""
        for one, two in combinations(optimizers, 2):
            common = [path for key, path in paths.items() if key in one.moved and key in two.moved]
            if not common or one.groups & two.groups:  # an optimizer that wraps another one has its groups
                continue
            yield SharedParameters(
                paths=tuple(common),
                optimizers=(one.name, two.name),
                rates=(one.rate, two.rate),
                sites=(one.made.site, two.made.site),
                counts=(len(one.moved), len(two.moved)),
                returns=min(one.returns, two.returns),
            )

    def late(self, optimizers: Iterable[OptimizerSteps], parameters: dict[str, Tensor]) -> LateParameters:
        """The parameters, among those with paths, that were assigned after the last optimizer was made."""
        newest = max((steps.made for steps in optimizers), key=NUMBER, default=BEFORE)
        moments = {path: self._assignment_of(parameter) for path, parameter in parameters.items()}
        late = {path: moment for path, moment in moments.items() if moment.number > newest.number}
        if not late:
            return NONE_LATE
        return LateParameters(tuple(late), min(late.values(), key=NUMBER).site)

    def replacements(self) -> list[Assignment]:
        """The parameters that were assigned after the last optimizer was made and have a gradient: where the model that
        the user named is not trained, others may be."""
        newest = max((moment.number for moment in self._made.values()), default=0)
        return [each for each in self._assigned.values() if each.moment.number > newest and each.has_gradient]

    def _assignment_of(self, parameter: Tensor) -> Occurrence:
        known = self._assigned.get(id(parameter))
        if known is not None and known.parameter() is parameter:
            return known.moment
        return BEFORE

    def _on_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._made[optimizer] = self._moment(optimizer)

    def _on_schedule(self, schedule: Any, args: Any, kwargs: Any) -> None:
        arguments: list[Any] = [*args, *kwargs.values()]
        numbers = named_numbers((*arguments[1:], *vars(schedule).values()), sys._getframe(CALLER))
        self._schedules[arguments[0]] = Schedule(self._moment(schedule), numbers)

    def _on_parameter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        name, parameter = (*args, *kwargs.values())[:2]
        self._remember(module, {name: parameter}, self._moment(module))

    def _on_copy(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        state: dict[str, Any] = next(iter((*args, *kwargs.values())), {})
        self._remember(module, state.get(PARAMETERS, {}), self._moment(module))

    def _remember(self, module: nn.Module, parameters: dict[str, Tensor | None], moment: Occurrence) -> None:
        title = f"{type(module).__name__}#{moment.number}"
        for name, parameter in parameters.items():
            if parameter is not None and len(self._assigned) < MOST_REMEMBERED:
                self._assigned[id(parameter)] = Assignment(
                    weakref.ref(parameter), weakref.ref(module), moment, f"{title}.{name}"
                )

    def _moment(self, owner: Any) -> Occurrence:
        self._count += 1
        return Occurrence(self._count, place_of(sys._getframe(CALLER + 1), beyond=owner))
