"""The statement that failed, as it was executed: its calls, and the expressions that the values on it came from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from insitu.capture.explain.expressions import Expression, Position, columns, line_at, pairs, position_of, segment
from insitu.capture.explain.reading import Reading, values
from insitu.capture.names import ModuleCallee
from insitu.capture.tape import PARENT, Raised
from insitu.capture.tensors import Value
from insitu.trace.explanation import Mark


@dataclass(slots=True)
class Named:
    """A value and the expression that it came from, alone or in a container, the item; `made_here` says that a call on
    the same line made it."""

    value: Value
    item: Any
    node: ast.expr
    text: str
    made_here: bool


class Statement:
    """The statement of an expression, in which calls were made up to the end of the tape that is given."""

    def __init__(self, reading: Reading, expression: Expression, *, parent: int, end: int) -> None:
        self.reading, self.expression = reading, expression
        self._asked: tuple[int, ast.AST] | None = None
        self._calls = self._calls_before(end, parent)
        self.named = list(self._named())

    def _calls_before(self, end: int, parent: int) -> dict[Position, tuple[int, ast.AST]]:
        """The calls of this execution by their places: what came before the last call elsewhere is an earlier one."""
        found: dict[Position, tuple[int, ast.AST]] = {}
        first, last = self.expression.lines
        for at in self.reading.before(end):
            frame = self.reading.frame(at) if self.reading.tape[at + PARENT] == parent else None
            if frame is None or frame[0].co_filename != self.expression.file:
                continue
            here = self.reading.expression(at) if first <= line_at(*frame) <= last else None
            if here is not None and here.position in found and self.reading.callee(at).name.endswith("__bool__"):
                self._asked = at, here.node  # for the truth of what stands there, after that was computed
                continue
            if here is None or here.position in found:
                found.clear()
            if here is not None:
                found[here.position] = (at, here.node)
        return found

    def _arguments(self) -> Iterator[tuple[int, Any, ast.expr]]:
        """The arguments of the calls on the line, each with the place of its call and the expression it came from."""
        for at, node in [*self._calls.values(), *([self._asked] if self._asked is not None else [])]:
            callee = self.reading.callee(at)
            name = "" if isinstance(callee, ModuleCallee) else callee.name
            for item, part in pairs(node, name, self.reading.args(at), self.reading.kwargs(at)):
                yield at, item, part

    def _named(self) -> Iterator[Named]:
        for at, item, part in self._arguments():
            text, inside = segment(self.expression.file, part), list(values(item))
            # torch.autograd.grad(u, x) is seen with tuples of one
            runs_backward = getattr(self.reading.callee(at), "runs_backward", False)
            alone = isinstance(item, Value) or (runs_backward and len(inside) == 1)
            for index, value in enumerate(inside):
                made_here = position_of(part) in self._calls
                yield Named(value, item, part, text if alone else f"{text}[{index}]", made_here)

    def named_as(self, value: Value) -> Named | None:
        """The expression on the line that a value came from."""
        return next((named for named in reversed(self.named) if named.value is value), None)

    def result(self, node: ast.AST) -> Any:
        """What a call on the line returned, as noted; None if none was made there."""
        at, _ = self._calls.get(position_of(node), (None, None))
        found = self.reading.result(at) if at is not None else None
        return None if isinstance(found, Raised) else found

    def marks(self) -> Iterator[Mark]:
        """What goes into the calls on the line from elsewhere, and the facts of it."""
        for named in self.named:
            if not named.made_here and isinstance(named.node, (ast.Name, ast.Attribute, ast.Subscript)):
                yield mark(self.expression.file, named.node, self.reading.plain(named.item))
        for _, item, part in self._arguments():
            if item is None and not isinstance(part, ast.Constant):
                yield mark(self.expression.file, part, None)
        yield from self._unpacked()

    def operands(self, given: list[Value]) -> list[Mark]:
        """The values that went into one call, under the expressions that they came from."""
        found = [named for value in given if (named := self.named_as(value)) is not None]
        return [mark(self.expression.file, named.node, self.reading.plain(named.item)) for named in found]

    def _unpacked(self) -> Iterator[Mark]:
        """What was to be unpacked, where the statement does that and a call on it made it."""
        statement = self.expression.statement
        if isinstance(statement, ast.Assign) and isinstance(self.expression.node, (ast.Tuple, ast.List)):
            made = self.result(statement.value)
            if made is not None:
                yield mark(self.expression.file, statement.value, self.reading.plain(made))


def mark(file: str, node: ast.AST, value: Any) -> Mark:
    """A value under the expression it came from."""
    return Mark(*columns(file, node), value)
