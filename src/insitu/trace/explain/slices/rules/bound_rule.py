"""Where a bound of a slice comes from: arithmetic on numbers, and rows of numbers that are read by their place."""

from __future__ import annotations

import ast

from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.rules.size_rule import ANY_SIZE
from insitu.trace.explain.slices.slice_walk import CERTAIN, Verdict

LEAST_ROW = 3  # numbers in a row whose places have meanings: a pair is mostly what a function returns


def bound_rule(point: Point, resolver: Resolver) -> Verdict:
    """A number that is the start or the end of a slice. A row such as `[x, y, w, h]` decides what each place means."""
    node = point.node
    if isinstance(node, (ast.List, ast.Tuple)):
        is_number = len(point.keys) == 1 and isinstance(point.keys[0], int)
        return Verdict(CERTAIN * (is_number and _is_row(node)))
    return ANY_SIZE.number(point, resolver)


def _is_row(node: ast.List | ast.Tuple) -> bool:
    """Whether a literal puts values into places; numbers that are written there are data."""
    return len(node.elts) >= LEAST_ROW and not all(isinstance(each, ast.Constant) for each in node.elts)
