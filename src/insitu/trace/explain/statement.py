"""The statement that failed, as it ran: its calls, and the expressions that the values on it came from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from insitu.trace.explain.explanation import Underline
from insitu.trace.explain.expressions import NO_EXPRESSION, Expression, Position, columns, line_at, position_of, segment
from insitu.trace.explain.failure_history import FailureHistory, TensorToken

# Expressions that read a value and compute nothing.
NAMES = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass(slots=True, frozen=True)
class CallInStatement:
    """A recorded call, and its expression in the statement."""

    at: int
    node: ast.AST


@dataclass(slots=True, frozen=True)
class Argument:
    """An argument of a call in the statement, and the expression it came from."""

    call: CallInStatement
    item: Any
    node: ast.expr


@dataclass(slots=True, frozen=True)
class TensorInStatement:
    """A tensor and the expression it came from, alone or in a container, the `item`.

    `is_result` says that a call in the same statement produced the tensor.
    """

    tensor: TensorToken
    item: Any
    node: ast.expr
    text: str
    is_result: bool


class Statement:
    """The statement of an expression, with the calls that were made in it before an offset."""

    def __init__(self, history: FailureHistory, expression: Expression, *, parent: int | None, end: int) -> None:
        self.history, self.expression = history, expression
        self._calls: dict[Position, CallInStatement] = {}
        self._condition: list[CallInStatement] = []
        siblings = [at for at in history.before(end) if history.parent(at) == parent]
        for at in reversed(list(self._latest(siblings))):
            self._add(at)
        self.tensors = list(self._tensors())

    def _latest(self, siblings: list[int]) -> Iterator[int]:
        """The calls on the lines of the statement since the last call on another line, the latest first."""
        first, last = self.expression.lines
        for at in reversed(siblings):
            frame = self.history.frame(at)
            if frame is None or frame[0].co_filename != self.expression.file:
                continue
            if not first <= line_at(*frame) <= last:
                return
            yield at

    def _add(self, at: int) -> None:
        """Add a call. One at the same position as an earlier call ends an earlier execution of the statement."""
        here = self.history.expression(at)
        call = CallInStatement(at, here.node)
        if here.position in self._calls:
            if self.history.callee_facts(at).name.endswith("__bool__"):
                self._condition = [call]  # the truth of a result is tested after its call
                return
            self._calls.clear()
        self._calls[here.position] = call

    def _arguments(self) -> Iterator[Argument]:
        for call in [*self._calls.values(), *self._condition]:
            yield from (Argument(call, item, node) for item, node in self.history.arguments(call.at))

    def _tensors(self) -> Iterator[TensorInStatement]:
        for argument in self._arguments():
            text = segment(self.expression.file, argument.node)
            inside = list(self.history.tensors(argument.item))
            is_result = position_of(argument.node) in self._calls
            is_alone = self._is_alone(argument, len(inside))
            for index, tensor in enumerate(inside):
                name = text if is_alone else f"{text}[{index}]"
                yield TensorInStatement(tensor, argument.item, argument.node, name, is_result)

    def _is_alone(self, argument: Argument, count: int) -> bool:
        """Whether the expression of an argument names a tensor and not a container of tensors."""
        if self.history.is_tensor(argument.item):
            return True
        # torch.autograd.grad(u, x) is recorded with tuples of one
        return count == 1 and self.history.callee_facts(argument.call.at).runs_backward

    def find(self, tensor: TensorToken) -> TensorInStatement | None:
        """The expression in the statement that a tensor came from."""
        for each in reversed(self.tensors):
            if each.tensor is tensor:
                return each
        return None

    def is_result(self, tensor: TensorToken) -> bool:
        """Whether a call in the statement produced a tensor."""
        found = self.find(tensor)
        return found is not None and found.is_result

    def result(self, node: ast.AST) -> Any:
        """The result of the call at an expression; None if there was no call, or it raised."""
        call = self._calls.get(position_of(node))
        if call is None or self.history.has_raised(call.at):
            return None
        return self.history.result(call.at)

    def underlines(self) -> Iterator[Underline]:
        """The values that go into the calls of the statement from elsewhere."""
        for each in self.tensors:
            if not each.is_result and isinstance(each.node, NAMES):
                yield self._underline(each.node, each.item)
        for argument in self._arguments():
            if argument.item is None and not isinstance(argument.node, ast.Constant):
                yield self._underline(argument.node, None)
        yield from self._unpacked_underline()

    def operand_underlines(self, operands: list[TensorToken]) -> list[Underline]:
        """The tensors that went into one call, under the expressions that they came from."""
        found = [self.find(tensor) for tensor in operands]
        return [self._underline(each.node, each.item) for each in found if each is not None]

    def _unpacked_underline(self) -> Iterator[Underline]:
        """The value that the statement unpacks, if a call in it produced the value."""
        source = self.expression.statement
        if self.expression.unpacks and isinstance(source, ast.Assign):
            source = source.value
        value = self.result(source)
        if value is not None:
            yield self._underline(source, value)

    def _underline(self, node: ast.AST, item: Any) -> Underline:
        return underline(self.expression.file, node, self.history.plain(item))


def no_statement(history: FailureHistory) -> Statement:
    """The statement of code whose source is not known: nothing was called in it."""
    return Statement(history, NO_EXPRESSION, parent=None, end=0)


def underline(file: str, node: ast.AST, value: Any) -> Underline:
    """A value under the expression it came from."""
    return Underline(*columns(file, node), value)
