"""A call as the rules of sizes see it: its operation, its arguments, and the shapes that went in and came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from insitu.trace.event import TensorFacts
from insitu.trace.operation import Operation

Shape = tuple[int | str, ...]


@dataclass(slots=True, frozen=True)
class PassedOn:
    """The input, and its dimension, from which a dimension of a result has its size."""

    input: int
    dim: int


# A rule that cannot tell says so: then nothing is claimed.
UNSURE = PassedOn(-1, -1)


@dataclass(slots=True, frozen=True)
class OperatorCall:
    """One call: `args` and `kwargs` are plain data, `inputs` the facts of all tensors in them, in order.

    `shape` is the shape of the result that is followed.
    """

    operation: Operation
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[TensorFacts, ...]
    shape: Shape

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """An argument by its index or its name."""
        if index < len(self.args):
            return self.args[index]
        return self.kwargs.get(name, default)

    def numbers(self, name: str) -> tuple[int, ...]:
        """The whole numbers after the tensor, written one by one or in a tuple: `permute(0, 2, 1)`."""
        found = self.args[1:] or (self.kwargs.get(name),)
        if len(found) == 1 and isinstance(found[0], (tuple, list)):
            found = tuple(found[0])
        if all(isinstance(number, int) for number in found):
            return tuple(found)
        return ()

    def index_of(self, tensor: Any) -> int | None:
        """The place of an argument among the inputs; None if it is not a tensor."""
        return next((place for place, facts in enumerate(self.inputs) if facts is tensor), None)


# What a rule says about a dimension of the result: which input passed it on; None if the call introduced the size.
Rule = Callable[[OperatorCall, int], PassedOn | None]
