"""The calls that were recorded before a failure, as the steps of an explanation ask for them."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from insitu.trace.event import Call, Fields
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import NO_EXPRESSION, Expression, expression_at, line_at, segment
from insitu.trace.explain.pairing import argument_pairs
from insitu.trace.operation import Operation, operation

# A tensor of the history: an object that is known by its identity; `FailureHistory.plain` gives its facts.
TensorToken = Any
# A frame: its code, and the offset of the instruction it has come to.
Instruction = tuple[CodeType, int]
USER_KINDS = ("module", "python")


@dataclass(slots=True, frozen=True)
class CalleeFacts:
    """What a recorded call called. `name` is empty for a module; `label` is the path or the name that users know."""

    kind: str
    name: str = ""
    label: str = ""
    module_type: str = ""
    in_place: bool = False
    runs_backward: bool = False

    @property
    def function(self) -> str:
        """The Python function that ran: `FeedForward.forward`."""
        if self.module_type:
            return f"{self.module_type}.forward"
        return self.name


class FailureHistory(ABC):
    """Recorded calls, each known by its offset.

    Capture reads them from the tape. A test writes them by hand: what is abstract here is all that it needs.
    """

    @abstractmethod
    def before(self, end: int) -> Iterator[int]:
        """Every call that began before an offset, in order."""

    @abstractmethod
    def after(self, at: int) -> int:
        """The offset behind the record of a call."""

    @abstractmethod
    def parent(self, at: int) -> int | None:
        """The call in which a call was made; None for an outermost one."""

    @abstractmethod
    def callee_facts(self, at: int) -> CalleeFacts:
        """What was called."""

    @abstractmethod
    def args(self, at: int) -> list[Any]:
        """The arguments of a call; tensors are tokens."""

    @abstractmethod
    def kwargs(self, at: int) -> dict[str, Any]:
        """The keyword arguments of a call; tensors are tokens."""

    @abstractmethod
    def result(self, at: int) -> Any:
        """The result of a call; tensors are tokens."""

    @abstractmethod
    def has_raised(self, at: int) -> bool:
        """Whether an exception ended the call."""

    @abstractmethod
    def frame(self, at: int) -> Instruction | None:
        """The innermost frame of the user's code between a call and its parent; None if there is none."""

    def frames(self, at: int) -> list[Instruction]:
        """Every frame of the user's code between a call and its parent, the innermost first."""
        frame = self.frame(at)
        if frame is None:
            return []
        return [frame]

    @abstractmethod
    def backward_node(self, at: int) -> int | None:
        """The number of the autograd node that a call of the backward pass belongs to."""

    @abstractmethod
    def maker(self, node: int, end: int) -> int | None:
        """The innermost call before an offset that made an autograd node."""

    @abstractmethod
    def is_tensor(self, item: Any) -> bool:
        """Whether an item is the token of a tensor or an array."""

    @abstractmethod
    def is_array(self, tensor: TensorToken) -> bool:
        """Whether a tensor is a NumPy array."""

    @abstractmethod
    def producer(self, tensor: TensorToken) -> int | None:
        """The call that produced a tensor; None if no recorded call did."""

    @abstractmethod
    def plain(self, item: Any) -> Any:
        """An argument or a result as plain data, with the facts of its tensors."""

    @abstractmethod
    def call(self, at: int) -> Call:
        """The event of a call."""

    def tensors(self, item: Any) -> Iterator[TensorToken]:
        """Every tensor in an argument or a result, in order."""
        if self.is_tensor(item):
            yield item
        for part in _parts(item):
            yield from self.tensors(part)

    def operation(self, at: int) -> Operation:
        """What is known about the function that a call called."""
        callee = self.callee_facts(at)
        return operation(callee.kind, callee.name)

    def inputs(self, at: int) -> list[TensorToken]:
        """The tensors that went into a call."""
        return list(self.tensors([self.args(at), self.kwargs(at)]))

    def ancestors(self, at: int | None) -> Iterator[int]:
        """A call, the one it was made in, and so on."""
        while at is not None:
            yield at
            at = self.parent(at)

    def on_line(self, at: int | None) -> int | None:
        """The call that is written in the user's source: the given one, else the innermost one around it."""
        return next((each for each in self.ancestors(at) if self.frame(each) is not None), None)

    def expression(self, at: int | None) -> Expression:
        """The expression of a call in the user's source."""
        frame = self.frame(at) if at is not None else None
        if frame is not None:
            return expression_at(*frame)
        return NO_EXPRESSION

    def site(self, at: int | None) -> ExpressionSite | None:
        """Where a call is written in the user's source."""
        line = self.on_line(at)
        frame = self.frame(line) if line is not None else None
        if frame is not None:
            return replace(site_of(*frame), call=line)
        return None

    def name_in(self, at: int, tensor: TensorToken) -> str:
        """The expression of an argument in the source of a call."""
        line = self.on_line(at)
        if line is None:
            return ""
        file = self.expression(line).file
        return next((segment(file, node) for item, node in self.arguments(line) if item is tensor), "")

    def arguments(self, at: int) -> list[tuple[Any, ast.expr]]:
        """The arguments of a call that is written in the user's source, each with its expression."""
        return argument_pairs(self.expression(at).node, self.callee_facts(at).name, self.args(at), self.kwargs(at))


def _parts(item: Any) -> list[Any]:
    if isinstance(item, (tuple, list)):
        return list(item)
    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, Fields):
        return list(item.items.values())
    return []


def site_of(code: CodeType, lasti: int) -> ExpressionSite:
    """The site of an instruction."""
    expression = expression_at(code, lasti)
    line = expression.position[0] or line_at(code, lasti)
    return ExpressionSite(code.co_filename, line, code.co_name, expression.text)
