"""The parts of an expression that its value is computed from."""

from __future__ import annotations

import ast

from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import inside_comprehension

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def owner_of(node: ast.AST) -> ast.expr | None:
    """The object whose method an expression calls: x of `x.reshape(3)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value
    return None


def arguments_of(node: ast.AST) -> list[ast.expr]:
    """The arguments of a call, with those that have names."""
    if not isinstance(node, ast.Call):
        return []
    return [*node.args, *(word.value for word in node.keywords)]


def parts_of(point: Point) -> tuple[Point, ...]:
    """Every part of an expression that its value is computed from."""
    node = point.node
    if isinstance(node, COMPREHENSIONS):
        inside = inside_comprehension(point, node)
        loops = [point.part(loop.iter) for loop in node.generators]
        return (inside, *loops)
    if isinstance(node, ast.Call):
        owner = owner_of(node)
        found = [*([owner] if owner is not None else []), *arguments_of(node)]
        return tuple(point.part(_unstarred(each)) for each in found)
    if isinstance(node, (ast.Lambda, ast.Constant)):
        return ()
    children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return tuple(point.part(_unstarred(child)) for child in children)


def _unstarred(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def is_number(node: ast.AST) -> bool:
    """Whether an expression is written as a number."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def number_of(node: ast.AST) -> float | None:
    """The number that an expression is written as."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number_of(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    return None
