"""Optimizers, as far as steps depend on them: whether a program has one, and when it has updated the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import CodeType
from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from insitu.capture.modes import skip_all_when_compiling
from insitu.capture.step_rule import StepRule
from insitu.capture.values.method_patch import MethodPatch
from insitu.capture.variables.follow.lookup import attribute
from insitu.capture.variables.follow.references import references


class Updates:
    """Tells a rule about updates: from the moment that there is an optimizer, a step ends with its update.

    With `is_fixed`, what ends a step stays what it is. `after` is called after each update. `counts` says whether the
    updates of an optimizer end steps.
    """

    def __init__(
        self,
        rule: StepRule,
        after: Callable[[], None],
        *,
        is_fixed: bool,
        counts: Callable[[Any], bool] = lambda optimizer: True,
    ) -> None:
        self._rule, self._after, self._is_fixed = rule, after, is_fixed
        self._counts = counts

    def start(self, undo: ExitStack) -> None:
        """Listen to all optimizers, and to those that are made from now on."""
        undo.callback(register_optimizer_step_post_hook(self._updated).remove)
        if not self._is_fixed:
            construction = MethodPatch.of(Optimizer, "__init__")
            undo.callback(construction.forget, construction.listen(self._made))

    def expect(self) -> None:
        """The program has an optimizer."""
        if not self._is_fixed:
            self._rule.end = "update"

    def _made(self, optimizer: Any, result: Any) -> None:
        self.expect()

    def _updated(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.expect()
        if self._counts(optimizer):
            self._rule.note("update")
        self._after()


skip_all_when_compiling(Updates._updated, Updates._made)


def mentions_optimizer(code: CodeType, namespace: Mapping[str, Any]) -> bool:
    """Whether code refers to an optimizer, by a name or an attribute such as `self.optimizer`; no code is run."""
    return any(map(is_optimizer, values_in([code], namespace)))


def values_in(codes: Iterable[CodeType], namespace: Mapping[str, Any]) -> Iterator[Any]:
    """The values of the names that code refers to, and of the attributes that follow them."""
    for reference in {reference for code in codes for reference in references(code)}:
        if reference.name not in namespace:
            continue
        value = namespace[reference.name]
        yield value
        for name in reference.attributes:
            value = attribute(value, name)
            yield value


def is_optimizer(value: Any) -> bool:
    """Whether a value is an optimizer of torch."""
    return issubclass(type(value), Optimizer)
