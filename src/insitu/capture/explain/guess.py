"""The call that a frame was making, where none was recorded: from its expression and the names of the frame."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator
from typing import Any

from torch import nn

from insitu.capture.explain.expressions import expression_at
from insitu.capture.explain.operands import Statement, mark
from insitu.capture.explain.reading import Reading, values
from insitu.capture.explain.scene import Note, View, attribute
from insitu.capture.tensors import Value
from insitu.trace.event import Call, Opaque, Word
from insitu.trace.explanation import Mark

UNKNOWN = Opaque("unknown")
OPERATORS = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Mod: "remainder"},
    **{ast.Pow: "pow", ast.FloorDiv: "floor_divide", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or"},
}


class Guess:
    """What a frame was about to do."""

    def __init__(self, view: View, reading: Reading, note: Note, statement: Statement | None) -> None:
        self.view, self.reading, self.note, self.statement = view, reading, note, statement
        self.expression = expression_at(view.code, view.lasti)

    def call(self, error: str, message: str) -> tuple[Call, list[tuple[Value, str]]] | None:
        """The call of a torch function or a module that the frame was making, and the expressions of its values."""
        made = self._made(self.expression.node) if self.expression is not None else None
        if made is None or self.expression is None:
            return None
        name, nodes, keywords = made
        args = [self.resolve(node) for node in nodes]
        kwargs = {key: self.resolve(node) for key, node in keywords.items()}
        names = [
            (value, ast.unparse(node))
            for node, item in [*zip(nodes, args, strict=True), *zip(keywords.values(), kwargs.values(), strict=True)]
            for value in values(item)
        ]
        if not names:
            return None
        plain = self.reading.plain
        call = Call(-1, None, "function", name, None, tuple(map(plain, args)), {k: plain(v) for k, v in kwargs.items()})
        call.raised, call.message = error, message
        return call, names

    def _made(self, node: ast.AST) -> tuple[str, list[ast.expr], dict[str, ast.expr]] | None:
        """Name, arguments and keyword arguments of the call that an expression is."""
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return f"torch.Tensor.{OPERATORS[type(node.op)]}", [node.left, node.right], {}
        if isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
            return f"torch.Tensor.{OPERATORS[type(node.op)]}_", [node.target, node.value], {}
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            place = node.targets[0]
            return "torch.Tensor.__setitem__", [place.value, place.slice, node.value], {}
        if isinstance(node, ast.Subscript):
            return "torch.Tensor.__getitem__", [node.value, node.slice], {}
        if not isinstance(node, ast.Call) or any(isinstance(part, ast.Starred) for part in node.args):
            return None
        keywords = {word.arg: word.value for word in node.keywords if word.arg is not None}
        return self._called(node.func, node.args, keywords)

    def _called(
        self, function: ast.expr, args: list[ast.expr], keywords: dict[str, ast.expr]
    ) -> tuple[str, list[ast.expr], dict[str, ast.expr]] | None:
        if isinstance(function, ast.Attribute):
            owner = self.resolve(function.value)
            if isinstance(owner, Value):
                return f"torch.Tensor.{function.attr}", [function.value, *args], keywords
            if isinstance(owner, Word) and owner.startswith(("torch", "numpy")):
                return f"{owner}.{function.attr}", args, keywords
        found = self.resolve(function)
        owner = found() if isinstance(found, weakref.ref) else None
        return (type(owner).__name__, args, keywords) if isinstance(owner, nn.Module) else None

    def resolve(self, node: ast.AST) -> Any:
        """What an expression was, as noted, where that can be told without executing anything."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.view.names.get(node.id, UNKNOWN)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self.resolve(part) for part in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self.resolve(node.operand)
            return -number if isinstance(number, (int, float)) else UNKNOWN
        made = self.statement.result(node) if self.statement is not None else None
        if made is not None:
            return made
        if isinstance(node, ast.Attribute):
            found = attribute(self.resolve(node.value), node.attr, self.note)
            return UNKNOWN if found is None else found
        return self._item(node) if isinstance(node, ast.Subscript) else UNKNOWN

    def _item(self, node: ast.Subscript) -> Any:
        owner, key = self.resolve(node.value), self.resolve(node.slice)
        if isinstance(owner, dict) and isinstance(key, str):
            return owner.get(key, UNKNOWN)
        if isinstance(owner, (list, tuple)) and type(key) is int and -len(owner) <= key < len(owner):
            return owner[key]
        return UNKNOWN

    def unpacked(self) -> Any:
        """What was to be given the names of a tuple, as noted: the whole, or the part of it that stands there."""
        statement = self.expression.statement if self.expression is not None else None
        node = self.expression.node if self.expression is not None else None
        if not isinstance(statement, ast.Assign) or not isinstance(node, (ast.Tuple, ast.List)):
            return None
        return _part(self.resolve(statement.value), statement.targets[0], node)

    def _names(self) -> list[tuple[ast.expr, Any]]:
        statement = self.expression.statement if self.expression is not None else ast.Pass()
        return [(node, self.resolve(node)) for node in _leaves(statement)]

    def tensors(self) -> list[tuple[Value, str]]:
        """The tensors that have names on the line."""
        return [(item, ast.unparse(node)) for node, item in self._names() if isinstance(item, Value)]

    def marks(self) -> Iterator[Mark]:
        """What the names on the line were: the tensors or, if there are none, everything that has a plain value."""
        if self.expression is None:
            return
        found = self._names()
        tensors = [(node, item) for node, item in found if item is None or next(values(item), None) is not None]
        for node, item in tensors or found:
            if is_plain(item):
                yield mark(self.expression.file, node, self.reading.plain(item))


def _part(item: Any, target: ast.expr, node: ast.AST) -> Any:
    """Of what was assigned to a target, that which one of its parts was to get."""
    if target is node or not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(item, (list, tuple)):
        return item if target is node else None
    if len(item) != len(target.elts):
        return None
    inner = (_part(one, to, node) for one, to in zip(item, target.elts, strict=True))
    return next((part for part in inner if part is not None), None)


def is_plain(item: Any) -> bool:
    """Whether there is something to show: not for modules, functions and other objects."""
    if isinstance(item, Word):
        return "," in item  # a long list; else the name of a module
    return isinstance(item, Value) or not isinstance(item, (Opaque, weakref.ref))


def _leaves(statement: ast.AST) -> Iterator[ast.expr]:
    """The names that a statement reads, each with the attributes that are asked of it."""
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            yield node
        if not isinstance(node, (ast.Name, ast.Lambda, ast.FunctionDef)):
            yield from _leaves(node)
