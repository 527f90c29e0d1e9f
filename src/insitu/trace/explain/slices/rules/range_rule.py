"""Where values that are out of range come from: shifts, counts, bins, offsets, constants."""

from __future__ import annotations

import ast

from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.expression_parts import is_number, number_of, parts_of, value_parts
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.rules.size_rule import has_list
from insitu.trace.explain.slices.slice_walk import CERTAIN, POSSIBLE, REMOTE, Rule, Verdict
from insitu.trace.explain.slices.user_file import keyword_of

BINNING = frozenset(("digitize", "searchsorted", "bucketize", "bisect", "bisect_left", "bisect_right"))
COUNTING = frozenset(("len", "max", "cumsum", "argmax", "amax", "count", "randint", "integers", "choice", "hash"))
NOT_PASSING = frozenset(
    (*BINNING, *COUNTING, "arange", "range", "enumerate", "zeros", "ones", "rand", "randn", "linspace")
)
NEGATIVE = frozenset(("find", "rfind"))


def range_rule(low: float | None, high: float | None) -> Rule:
    """The rule for whole numbers that leave the range from `low` to `high`; None where nobody knows the limit."""

    def judge(point: Point, resolver: Resolver) -> Verdict:
        return Verdict(_score(point, resolver, low, high), _sources(point))

    return judge


def _sources(point: Point) -> tuple[Point, ...]:
    """The parts whose values go into the result: what is only counted or sorted into bins does not."""
    node = point.node
    if called_name(node) in NOT_PASSING or isinstance(getattr(node, "op", None), ast.Mod):
        return ()
    if isinstance(node, ast.Call):
        return value_parts(point, node)
    if isinstance(node, ast.BinOp) and _is_repetition(node):
        lists = [side for side in (node.left, node.right) if isinstance(side, (ast.List, ast.Tuple))]
        return point.parts(item for side in lists for item in side.elts)
    return parts_of(point)


def _score(point: Point, resolver: Resolver, low: float | None, high: float | None) -> int:
    node = point.node
    if isinstance(node, ast.BinOp):
        return _operator_score(node)
    number = number_of(node)
    if number is not None:
        return CERTAIN * _is_outside(number, low, high) if type(number) is int else 0
    if isinstance(node, ast.Subscript):
        return POSSIBLE * _selects_by_mask(node)
    if isinstance(node, ast.IfExp):
        return POSSIBLE * (is_number(node.body) or is_number(node.orelse))
    return _call_score(point, resolver, low)


def _call_score(point: Point, resolver: Resolver, low: float | None) -> int:
    node, name = point.node, called_name(point.node)
    if name == "enumerate" and point.keys[1:2] == (0,):
        return CERTAIN * (_start_of(node) is not None)
    if not name or resolver.behind(point) is not None:
        return 0
    if name in BINNING:
        return CERTAIN
    if name in NEGATIVE and low is not None:
        return CERTAIN
    return REMOTE * (name in COUNTING)


def _selects_by_mask(node: ast.Subscript) -> bool:
    """Whether an index of several parts keeps some rows by their name: `edges[:, inside]`."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    has_all = any(isinstance(part, ast.Slice) and part.lower is part.upper is None for part in parts)
    return has_all and any(isinstance(part, (ast.Name, ast.Compare)) for part in parts)


def _start_of(node: ast.AST) -> ast.expr | None:
    """The number that an `enumerate` begins with, if it has one."""
    assert isinstance(node, ast.Call)
    return keyword_of(node, "start") or next(iter(node.args[1:2]), None)


def _operator_score(node: ast.BinOp) -> int:
    """A shift by a number is likely; a remainder or a scale is possible."""
    if has_list(node):
        return 0
    if isinstance(node.op, (ast.Add, ast.Sub)):
        return CERTAIN if is_number(node.left) or is_number(node.right) else POSSIBLE
    if isinstance(node.op, (ast.Mult, ast.FloorDiv, ast.Div)):
        return POSSIBLE
    return 0


def _is_repetition(node: ast.BinOp) -> bool:
    """Whether a product repeats a list."""
    return isinstance(node.left, (ast.List, ast.Tuple)) or isinstance(node.right, (ast.List, ast.Tuple))


def _is_outside(number: float, low: float | None, high: float | None) -> bool:
    is_above = high is not None and number > high
    is_below = low is not None and number < low
    return is_above or is_below
