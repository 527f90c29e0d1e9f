"""Where None comes from: a choice, a function that ends without a value, a look-up, a default."""

from __future__ import annotations

import ast

from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.slice_walk import CERTAIN, POSSIBLE, Verdict
from insitu.trace.explain.slices.source_callees import callees
from insitu.trace.explain.slices.source_calls import may_return_nothing

# Methods that change their object and return nothing, and functions that return None if they find nothing.
IN_PLACE = frozenset(
    ("append", "extend", "sort", "reverse", "shuffle", "insert", "clear", "add", "remove", "zero_grad")
)
SEARCHING = frozenset(("match", "search", "fullmatch", "getenv", "which"))


def none_rule(point: Point, resolver: Resolver) -> Verdict:
    """A value that is None."""
    return Verdict(_score(point, resolver))


def _score(point: Point, resolver: Resolver) -> int:
    node = point.node
    if isinstance(node, ast.IfExp):
        return CERTAIN * (_is_none(node.body) or _is_none(node.orelse))
    if _is_none(node):
        return POSSIBLE * (not point.keys)
    if not isinstance(node, ast.Call):
        return 0
    name = called_name(node)
    if name == "get" and len(node.args) == 1:
        return CERTAIN
    if any(may_return_nothing(callee.function) for callee in callees(resolver, point.part(node.func))):
        return CERTAIN
    if resolver.behind(point) is not None:
        return 0
    return CERTAIN * (name in IN_PLACE or name in SEARCHING)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
