"""A case: the call that failed, with its operands named. The checks look at nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from insitu.trace.event import Call, TensorFacts
from insitu.trace.explain.explanation import ExpressionSite, ShapeRow
from insitu.trace.explain.failure import InPlaceChange
from insitu.trace.operation import UNKNOWN, Operation, operation

Limits = tuple[float, float]


@dataclass(slots=True, frozen=True)
class NamedOperand:
    """A tensor that went into the call that failed, by its expression or its path; `tensor` is its token in the
    history."""

    name: str
    facts: TensorFacts
    tensor: Any = None

    @property
    def label(self) -> str:
        """The name, for a sentence."""
        return self.name or "a tensor"


@dataclass(slots=True, frozen=True)
class MissingValue:
    """A name on the line that is None: the site that assigned it, and the function that returned None there."""

    name: str
    site: ExpressionSite | None = None
    returned_by: str = ""


@dataclass(slots=True, frozen=True)
class ParameterUpdate:
    """A parameter that changed between forward and backward, and the step of the optimizer, if that is known."""

    parameter: str
    step: str = ""


@dataclass(slots=True, frozen=True)
class SliceBounds:
    """A slice of an index that leaves nothing: its text, the values of its bounds, and their expressions."""

    text: str
    start: int
    end: int
    lower: ast.expr | None = None
    upper: ast.expr | None = None


@dataclass(slots=True, frozen=True)
class EmptySlice:
    """An index whose result is empty: the recorded call, its text, and the slices that leave nothing."""

    at: int
    text: str
    bounds: tuple[SliceBounds, ...]


@dataclass(slots=True, frozen=True)
class Element:
    """One element of a tensor: its index and its value."""

    index: int
    value: float


def _unknown_element(facts: TensorFacts, low: float, high: float) -> Element | None:
    return None


def _unknown_limits(facts: TensorFacts) -> Limits | None:
    return None


@dataclass(slots=True, frozen=True)
class Case:
    """What the checks know of a failure.

    `call` is the call that failed, `operands` names its tensors. `limits` gives the smallest and the largest value of
    a tensor that is still alive and unchanged. `missing` are the names on the line that are None. `unpacked` is the
    value that a tuple of names was to get. `outside` gives the first element of a list of numbers that is not within
    limits. `empty` is the slice that made an operand empty. `nan_parameters` are the paths of parameters that hold NaN.
    `change` is the change in place of a tensor that the backward pass needs,
    `update` the parameter that it changed.
    """

    error: str
    message: str
    call: Call | None = None
    operands: tuple[NamedOperand, ...] = ()
    limits: Callable[[TensorFacts], Limits | None] = _unknown_limits
    missing: tuple[MissingValue, ...] = ()
    unpacked: Any = None
    outside: Callable[[TensorFacts, float, float], Element | None] = _unknown_element
    empty: EmptySlice | None = None
    nan_parameters: tuple[str, ...] = ()
    change: InPlaceChange | None = None
    update: ParameterUpdate | None = None

    @property
    def name(self) -> str:
        """The last part of the name of the function: `add`, `linear`."""
        return self.operation.own

    @property
    def operation(self) -> Operation:
        """What is known about the function."""
        if self.call is not None:
            return operation(self.call.kind, self.call.name)
        return UNKNOWN

    @property
    def first(self) -> NamedOperand | None:
        """The first operand."""
        if self.operands:
            return self.operands[0]
        return None

    def setting(self, name: str) -> Any:
        """A setting of the module that was called; None if it is not known."""
        module = self.call.module if self.call is not None else None
        if module is not None:
            return module.settings.get(name)
        return None

    def first_row(self, role: str) -> tuple[ShapeRow, ...]:
        """The first operand as the only row of a misfit."""
        return tuple(self.row(role, operand.facts) for operand in self.operands[:1])

    def name_of(self, facts: TensorFacts) -> str:
        """The expression, or the path, of a tensor."""
        return next((operand.name for operand in self.operands if operand.facts is facts), "")

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """An argument by its index or its name."""
        if self.call is None:
            return default
        if index < len(self.call.args):
            return self.call.args[index]
        return self.call.kwargs.get(name, default)

    def tensor(self, index: int, name: str) -> TensorFacts | None:
        """An argument by its index or its name, if it is a tensor."""
        found = self.argument(index, name)
        if isinstance(found, TensorFacts):
            return found
        return None

    def row(self, role: str, facts: TensorFacts) -> ShapeRow:
        """A tensor as a row of a misfit."""
        return ShapeRow(role, facts.shape, self.name_of(facts))

    def rows(self, **facts: TensorFacts) -> tuple[ShapeRow, ...]:
        """Tensors as the rows of a misfit, by their roles."""
        return tuple(self.row(role, each) for role, each in facts.items())


def before_dot(name: str) -> str:
    """An expression as it is written before a dot: in brackets where it needs them.

    >>> before_dot("w * 2"), before_dot("x[0].t()"), before_dot("encoder.0.weight")
    ('(w * 2)', 'x[0].t()', 'encoder.0.weight')
    """
    try:
        node = ast.parse(f"({name})", mode="eval").body
    except SyntaxError:  # the path of a parameter
        return name
    is_whole = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    if is_whole or not name:
        return name
    return f"({name})"
