"""Pairs the arguments of a recorded call with the expressions that they came from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, starmap, takewhile
from typing import Any

# An argument, or an item of a container that is an argument, and the expression it came from.
Pair = tuple[Any, ast.expr]


def argument_pairs(node: ast.AST, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Pair]:
    """The arguments of a call with their expressions, where the source leaves no doubt.

    `node` is the expression of the call, `name` the name of the function, empty for a module.
    """
    if not isinstance(node, ast.Call):
        return _spread(zip(args, _operands(node, name, args), strict=False))
    if name and not _is_call_of(node, name):
        return []  # torch called the function, inside of what the source calls
    keywords = {word.arg: word.value for word in node.keywords}
    by_name = [(item, keywords[key]) for key, item in kwargs.items() if key in keywords]
    by_index = zip(args, [*_receiver(node, name), *_before_star(node.args)], strict=False)
    return _spread([*by_index, *by_name])


def _spread(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs, with the items of each container that was written as a list or a tuple."""
    return list(chain.from_iterable(starmap(_item_pairs, pairs)))


def _operands(node: ast.AST, name: str, args: Sequence[Any]) -> list[ast.expr]:
    """The operands of an expression other than a call."""
    if name.endswith("__bool__"):
        return _condition(node)
    operands = OPERANDS.get(type(node), _no_operands)(node)
    if _is_reflected(node, args):
        return operands[::-1]
    return operands


def _is_reflected(node: ast.AST, args: Sequence[Any]) -> bool:
    """Whether Python called a method of the right operand: `1 - x` is `x.__rsub__(1)`."""
    if not isinstance(node, ast.BinOp) or not args:
        return False
    return isinstance(node.left, ast.Constant) and not isinstance(args[0], (int, float, complex))


def _no_operands(node: ast.AST) -> list[ast.expr]:
    return []


def _stored_item(node: ast.Assign) -> list[ast.expr]:
    """The operands of `x[i] = y`."""
    target = node.targets[0]
    if isinstance(target, ast.Subscript):
        return [target.value, target.slice, node.value]
    return []


OPERANDS: dict[type[ast.AST], Callable[[Any], list[ast.expr]]] = {
    ast.BinOp: lambda node: [node.left, node.right],
    ast.AugAssign: lambda node: [node.target, node.value],
    ast.Compare: lambda node: [node.left, node.comparators[0]],
    ast.UnaryOp: lambda node: [node.operand],
    ast.Subscript: lambda node: [node.value, node.slice],
    ast.Assign: _stored_item,
    ast.Attribute: lambda node: [node.value],
}


def _condition(node: ast.AST) -> list[ast.expr]:
    """The expression whose truth is tested: of `not x` the x; nothing of `a and b` and `a < b < c`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    if isinstance(node, ast.BoolOp) or not isinstance(node, ast.expr):
        return []
    if len(getattr(node, "comparators", ())) > 1:
        return []
    return [node]


def _is_call_of(node: ast.Call, name: str) -> bool:
    """Whether an expression calls a function of this name: `F.linear(x)`, `bool(x)`."""
    written = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return bool(written.strip("_") == name.rpartition(".")[2].strip("_"))


def _receiver(node: ast.Call, name: str) -> list[ast.expr]:
    """The tensor whose method is called."""
    if not isinstance(node.func, ast.Attribute) or not name.startswith("torch.Tensor."):
        return []
    owner = node.func.value
    if ast.unparse(owner) in ("torch.Tensor", "Tensor"):
        return []
    return [owner]


def _before_star(nodes: list[ast.expr]) -> list[ast.expr]:
    """The arguments before the first `*arguments`."""
    return list(takewhile(lambda node: not isinstance(node, ast.Starred), nodes))


def _item_pairs(item: Any, node: ast.expr) -> list[Pair]:
    if isinstance(item, (list, tuple)) and isinstance(node, (ast.List, ast.Tuple)):
        return _spread(zip(item, _before_star(node.elts), strict=False))
    return [(item, node)]
