"""Why a call failed, as plain data: the place, the operands, what about them does not fit, and where they were made."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import UNKNOWN, Operation, operation


@dataclass(slots=True, frozen=True)
class Place:
    """A place in the source; `text` is the expression that stands there."""

    file: str
    line: int
    function: str = ""
    text: str = ""


@dataclass(slots=True, frozen=True)
class Mark:
    """A part of a source line and the value it had; `start` and `end` are columns of the line, in characters."""

    line: int
    start: int
    end: int
    value: Any


@dataclass(slots=True, frozen=True)
class Row:
    """A tensor that takes part: its role (left, weight, [1]), its shape, the expression or path it is known by."""

    role: str
    shape: tuple[int | str, ...]
    name: str = ""


@dataclass(slots=True, frozen=True)
class Misfit:
    """One thing that does not fit: the tensors with their shapes one under the other, and what is wrong with them.

    `dimension` is the one to mark, counted from the right (-1 is the last); `advice` is the way out, if there is one.
    """

    text: str
    rows: tuple[Row, ...] = ()
    dimension: int | None = None
    advice: str = ""


@dataclass(slots=True, frozen=True)
class Origin:
    """Where something comes from: `bias`, "made at", the place."""

    name: str
    how: str
    place: Place | None = None


@dataclass(slots=True, frozen=True)
class Operand:
    """A tensor that went into the call that failed, by the expression, or the path, that names it."""

    name: str
    facts: TensorFacts


def before_dot(name: str) -> str:
    """An expression as it is written before a dot: in brackets where it needs them.

    >>> before_dot("w * 2"), before_dot("x[0].t()"), before_dot("encoder.0.weight")
    ('(w * 2)', 'x[0].t()', 'encoder.0.weight')
    """
    try:
        node = ast.parse(f"({name})", mode="eval").body
    except SyntaxError:  # the path of a parameter
        return name
    whole = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return name if whole or not name else f"({name})"


@dataclass(slots=True)
class Case:
    """What is known of a failure before anything is made of it.

    `call` is the call that failed, `operands` names its tensors, `limits` gives the smallest and the largest value of
    a tensor that is still there and was not changed since. `nothing` names what is None, and who has returned that, if
    it is known; `unpacked` is what was to be given several names; `update` is the step of an optimizer that has changed
    what a backward pass needs, and the parameter.
    """

    error: str
    message: str
    call: Call | None = None
    operands: tuple[Operand, ...] = ()
    limits: Callable[[TensorFacts], tuple[float, float] | None] = lambda facts: None
    nothing: tuple[tuple[str, str], ...] = ()
    unpacked: Any = None
    update: str = ""

    @property
    def name(self) -> str:
        """The last part of the name of the function: `add`, `linear`."""
        return self.operation.own

    @property
    def operation(self) -> Operation:
        """What is known about the function."""
        return operation(self.call.kind, self.call.name) if self.call is not None else UNKNOWN

    def named(self, facts: TensorFacts) -> str:
        """The expression that names a tensor."""
        return next((operand.name for operand in self.operands if operand.facts is facts), "")

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """An argument by its place or its name."""
        if self.call is None:
            return default
        if index < len(self.call.args):
            return self.call.args[index]
        return self.call.kwargs.get(name, default)

    def row(self, role: str, facts: TensorFacts) -> Row:
        """A tensor as a row of a misfit."""
        return Row(role, facts.shape, self.named(facts))


@dataclass(slots=True)
class Explanation:
    """Why an exception was raised; its text is what `insitu.explain` shows.

    >>> place, source = Place("model.py", 3, "forward"), ((3, "    b = state['bias']"),)
    >>> print(Explanation("KeyError", "'bias'", place, source=source))
    KeyError: 'bias'
      model.py:3 in forward
         3 │ b = state['bias']
    """

    error: str
    message: str
    place: Place | None = None
    modules: tuple[str, ...] = ()
    source: tuple[tuple[int, str], ...] = ()
    marks: tuple[Mark, ...] = ()
    misfits: tuple[Misfit, ...] = ()
    origins: tuple[Origin, ...] = field(default=())

    def __str__(self) -> str:
        from insitu.view.error import text  # plain data knows no view, except for print(explanation)

        return text(self)

    def __repr__(self) -> str:
        return str(self)

    @property
    def note(self) -> str:
        """The text without the exception itself, for where that is shown already."""
        from insitu.view.error import note

        return note(self)
