"""What a frame was doing when it failed, read from its expression and the values of its names; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from insitu.trace.event import Call, Opaque, Word
from insitu.trace.explain.case import NamedOperand
from insitu.trace.explain.explanation import Underline
from insitu.trace.explain.expressions import expression_at
from insitu.trace.explain.failure import UNKNOWN, FrameSnapshot, ObjectSnapshot
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.statement import Statement, underline

OPERATORS = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Mod: "remainder"},
    **{ast.Pow: "pow", ast.FloorDiv: "floor_divide", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or"},
}


@dataclass(slots=True, frozen=True)
class WrittenCall:
    """A call as it is written: the full name of the function, the expressions of the arguments."""

    name: str
    args: list[ast.expr]
    kwargs: dict[str, ast.expr]


@dataclass(slots=True, frozen=True)
class FailedCall:
    """The call that failed, and its tensors by name; no call where it is not known."""

    call: Call | None = None
    operands: tuple[NamedOperand, ...] = ()


class FrameReader:
    """Reads what a frame was about to do."""

    def __init__(self, frame: FrameSnapshot, history: FailureHistory, statement: Statement) -> None:
        self.frame, self.history, self.statement = frame, history, statement
        self.expression = expression_at(frame.code, frame.lasti)
        self._written: dict[type[ast.AST], Callable[[Any], WrittenCall | None]] = {
            ast.BinOp: self._binary,
            ast.AugAssign: self._augmented,
            ast.Assign: self._store,
            ast.Subscript: self._subscript,
            ast.Call: self._call,
        }
        self._plain: dict[type[ast.AST], Callable[[Any], Any]] = {
            ast.Constant: lambda node: node.value,
            ast.Name: lambda node: frame.names.get(node.id, UNKNOWN),
            ast.List: self._items,
            ast.Tuple: self._items,
        }
        self._computed: dict[type[ast.AST], Callable[[Any], Any]] = {
            ast.UnaryOp: self._negative,
            ast.Attribute: self._attribute,
            ast.Subscript: self._item,
        }

    def call(self, error: str, message: str) -> FailedCall | None:
        """The call of a torch function or a module that the frame was making, if tensors went into it."""
        written = self._written_call(self.expression.node)
        if written is None:
            return None
        args = [(node, self.value(node)) for node in written.args]
        kwargs = {key: (node, self.value(node)) for key, node in written.kwargs.items()}
        operands = tuple(self._operands([*args, *kwargs.values()]))
        if not operands:
            return None
        plain_args = tuple(self.history.plain(item) for _, item in args)
        plain_kwargs = {key: self.history.plain(item) for key, (_, item) in kwargs.items()}
        call = Call(-1, None, "function", written.name, None, plain_args, plain_kwargs, raised=error, message=message)
        return FailedCall(call, operands)

    def _operands(self, arguments: list[tuple[ast.expr, Any]]) -> Iterator[NamedOperand]:
        for node, item in arguments:
            name = "" if self.frame.is_hidden else ast.unparse(node)  # torch's names say nothing to the user
            for tensor in self.history.tensors(item):
                yield NamedOperand(name, self.history.plain(tensor), tensor)

    def _written_call(self, node: ast.AST) -> WrittenCall | None:
        reader = self._written.get(type(node))
        if reader is None:
            return None
        return reader(node)

    def _binary(self, node: ast.BinOp) -> WrittenCall | None:
        name = OPERATORS.get(type(node.op))
        if name is None:
            return None
        return WrittenCall(f"torch.Tensor.{name}", [node.left, node.right], {})

    def _augmented(self, node: ast.AugAssign) -> WrittenCall | None:
        name = OPERATORS.get(type(node.op))
        if name is None:
            return None
        return WrittenCall(f"torch.Tensor.{name}_", [node.target, node.value], {})

    def _store(self, node: ast.Assign) -> WrittenCall | None:
        target = node.targets[0]
        if not isinstance(target, ast.Subscript):
            return None
        return WrittenCall("torch.Tensor.__setitem__", [target.value, target.slice, node.value], {})

    def _subscript(self, node: ast.Subscript) -> WrittenCall | None:
        return WrittenCall("torch.Tensor.__getitem__", [node.value, node.slice], {})

    def _call(self, node: ast.Call) -> WrittenCall | None:
        if ast.Starred in map(type, node.args):
            return None
        keywords = {word.arg: word.value for word in node.keywords if word.arg is not None}
        return self._method(node.func, node.args, keywords) or self._module(node.func, node.args, keywords)

    def _method(self, function: ast.expr, args: list[ast.expr], kwargs: dict[str, ast.expr]) -> WrittenCall | None:
        """The call of a method of a tensor, or of a function of torch or NumPy."""
        if not isinstance(function, ast.Attribute):
            return None
        owner = self.value(function.value)
        if self.history.is_tensor(owner):
            return WrittenCall(f"torch.Tensor.{function.attr}", [function.value, *args], kwargs)
        if isinstance(owner, Word) and owner.startswith(("torch", "numpy")):
            return WrittenCall(f"{owner}.{function.attr}", args, kwargs)
        return None

    def _module(self, function: ast.expr, args: list[ast.expr], kwargs: dict[str, ast.expr]) -> WrittenCall | None:
        """The call of a module."""
        callee = self.value(function)
        if not isinstance(callee, ObjectSnapshot) or not callee.module_type:
            return None
        return WrittenCall(callee.module_type, args, kwargs)

    def value(self, node: ast.AST) -> Any:
        """The value of an expression, where it is known; tensors are tokens."""
        plain = self._plain.get(type(node))
        if plain is not None:
            return plain(node)
        result = self.statement.result(node)
        if result is not None:
            return result
        computed = self._computed.get(type(node))
        if computed is not None:
            return computed(node)
        return UNKNOWN

    def _items(self, node: ast.List | ast.Tuple) -> list[Any]:
        return list(map(self.value, node.elts))

    def _negative(self, node: ast.UnaryOp) -> Any:
        number = self.value(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(number, (int, float)):
            return -number
        return UNKNOWN

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        if isinstance(owner, ObjectSnapshot):
            return owner.attribute(node.attr)
        return UNKNOWN

    def _item(self, node: ast.Subscript) -> Any:
        owner, key = self.value(node.value), self.value(node.slice)
        if not isinstance(owner, (dict, list, tuple)) or not isinstance(key, (str, int)):
            return UNKNOWN
        try:
            return owner[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return UNKNOWN

    def unpacked(self) -> Any:
        """The value that a tuple of names in an assignment was to get; for a nested tuple, its part of the value."""
        statement = self.expression.statement
        if not self.expression.unpacks or not isinstance(statement, ast.Assign):
            return None
        return _part_for(self.expression.node, statement.targets[0], self.value(statement.value))

    def _names(self) -> list[tuple[ast.expr, Any]]:
        """The names that the statement reads, with their values."""
        return [(node, self.value(node)) for node in _names_read(self.expression.statement)]

    def tensors(self) -> list[NamedOperand]:
        """The tensors that have names in the statement."""
        found = []
        for node, item in self._names():
            if self.history.is_tensor(item):
                found.append(NamedOperand(ast.unparse(node), self.history.plain(item), item))
        return found

    def name_of(self, tensor: TensorToken) -> str:
        """A name of the frame that refers to a tensor."""
        for name, item in self.frame.names.items():
            if item is tensor:
                return name
        return ""

    def underlines(self) -> Iterator[Underline]:
        """The values of the names in the statement: tensors and None or, if there are none, all plain values."""
        names = self._names()
        important = [(node, item) for node, item in names if self._is_important(item)]
        for node, item in important or names:
            if _is_shown(item):
                yield underline(self.frame.code.co_filename, node, self.history.plain(item))

    def _is_important(self, item: Any) -> bool:
        """Whether a value is None, or has a tensor."""
        return item is None or any(True for _ in self.history.tensors(item))


def _is_shown(item: Any) -> bool:
    """Whether there is something to show: not for modules, functions and other objects."""
    if isinstance(item, Word):
        return "," in item  # a long list; else the name of a Python module
    return not isinstance(item, (Opaque, ObjectSnapshot))


def _part_for(node: ast.AST, target: ast.expr, item: Any) -> Any:
    """The part of an assigned value that belongs to one part of the target."""
    if target is node:
        return item
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(item, (list, tuple)):
        return None
    if len(item) != len(target.elts):
        return None
    for inner, part in zip(target.elts, item, strict=True):
        found = _part_for(node, inner, part)
        if found is not None:
            return found
    return None


def _names_read(statement: ast.AST) -> Iterator[ast.expr]:
    """The names that a statement reads, each with the attributes that it reads from it."""
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            yield node
        if not isinstance(node, (ast.Name, ast.Lambda, ast.FunctionDef)):
            yield from _names_read(node)
