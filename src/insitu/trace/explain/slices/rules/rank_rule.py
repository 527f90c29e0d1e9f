"""Where the number of dimensions comes from: squeezing, indexing, reshaping, reducing."""

from __future__ import annotations

import ast

from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.expression_parts import owner_of, parts_of
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.slice_walk import CERTAIN, POSSIBLE, REMOTE, Verdict
from insitu.trace.explain.slices.user_file import keyword_of

CHANGING = frozenset(
    ("squeeze", "flatten", "ravel", "unsqueeze", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d", "newaxis")
)
SHAPING = frozenset(("reshape", "view", "stack", "vstack", "hstack", "array_split", "unbind", "diag", "diagonal"))
REDUCING = frozenset(("mean", "sum", "max", "min", "argmax", "argmin", "norm", "std", "var", "median", "any", "all"))
KEEPING = ("keepdim", "keepdims")


def rank_rule(point: Point, resolver: Resolver) -> Verdict:
    """An array or a tensor whose number of dimensions matters."""
    return Verdict(_score(point, resolver), _sources(point))


def _score(point: Point, resolver: Resolver) -> int:
    node = point.node
    if isinstance(node, ast.Subscript):
        return _index_score(node)
    name = called_name(node)
    if not name or resolver.behind(point) is not None:
        return 0
    if name in CHANGING:
        return CERTAIN
    if name in SHAPING:
        return POSSIBLE
    return POSSIBLE * (name in REDUCING and keyword_of(node, *KEEPING) is None and bool(getattr(node, "keywords", ())))


def _index_score(node: ast.Subscript) -> int:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if any(isinstance(each, ast.Constant) and each.value is None for each in parts):
        return CERTAIN
    if len(parts) > 1:
        return POSSIBLE * any(not isinstance(each, ast.Slice) for each in parts)
    if isinstance(node.slice, ast.Constant) and type(node.slice.value) is int:
        return POSSIBLE
    return REMOTE * (not isinstance(node.slice, (ast.Slice, ast.Constant)))


def _sources(point: Point) -> tuple[Point, ...]:
    """The arrays that an expression takes: sizes and other numbers do not matter."""
    node = point.node
    owner = owner_of(node)
    if not isinstance(node, ast.Call):
        return parts_of(point)
    firsts = ([owner] if owner is not None else []) + node.args[:1]
    return point.parts(firsts)
