"""A slice that left nothing: the recorded index that made a tensor empty, with the bounds that it had."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from insitu.trace.explain.case import EmptySlice, NamedOperand, SliceBounds
from insitu.trace.explain.explanation import Origin
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import call_start, point_at
from insitu.trace.explain.slices.rules.bound_rule import bound_rule

MOST_STEPS = 20
MOST_BOUNDS = 2  # of one slice that are followed
MOST_PLACES = 2  # for each bound


@dataclass(slots=True, frozen=True)
class _Emptying:
    """A recorded index whose result is empty and whose input is not, and its expression."""

    at: int
    node: ast.Subscript


def find_empty_slice(history: FailureHistory, operands: Sequence[NamedOperand]) -> EmptySlice | None:
    """The slice that made an operand empty."""
    for operand in operands:
        found = _emptying(history, operand.tensor)
        bounds = tuple(_empty_bounds(history, found)) if found is not None else ()
        if found is not None and bounds:
            return EmptySlice(found.at, ast.unparse(found.node), bounds)
    return None


def _emptying(history: FailureHistory, tensor: TensorToken) -> _Emptying | None:
    """The index that made a tensor empty, behind calls that keep it empty."""
    for _ in range(MOST_STEPS):
        at = history.producer(tensor)
        source = next(iter(history.inputs(at)), None) if at is not None else None
        if at is None or source is None or 0 not in history.plain(tensor).shape:
            return None
        node = history.expression(history.on_line(at)).node
        if 0 not in history.plain(source).shape:
            return _Emptying(at, node) if isinstance(node, ast.Subscript) else None
        tensor = source
    return None


def _empty_bounds(history: FailureHistory, found: _Emptying) -> Iterator[SliceBounds]:
    """The slices of an index that leave nothing: the end is not behind the start."""
    nodes = _parts(found.node.slice)
    keys = _parts(history.plain(history.args(found.at))[1])
    if len(nodes) != len(keys):
        return
    for node, key in zip(nodes, keys, strict=True):
        limits = _limits(str(key))
        if isinstance(node, ast.Slice) and limits is not None and limits[0] >= limits[1]:
            yield SliceBounds(ast.unparse(node), *limits, lower=node.lower, upper=node.upper)


def _parts(index: object) -> Sequence[object]:
    """The parts of an index, or of its expression."""
    if isinstance(index, ast.Tuple):
        return index.elts
    return index if isinstance(index, (tuple, list)) else [index]


def _limits(text: str) -> tuple[int, int] | None:
    """The start and the end of a slice; None if one counts from the end, or the slice has no end."""
    start, _, rest = text.partition(":")
    end = rest.partition(":")[0]
    if not end.isdigit() or not (start or "0").isdigit():
        return None
    return int(start or 0), int(end)


def empty_slice_origins(failure: Failure, empty: EmptySlice | None) -> Iterator[Origin]:
    """Where the bounds of a slice that left nothing come from."""
    start = call_start(failure.history, empty.at) if empty is not None else None
    if empty is None or start is None:
        return
    nodes = [node for each in empty.bounds for node in (each.upper, each.lower) if isinstance(node, ast.expr)]
    for node in nodes[:MOST_BOUNDS]:
        points = [point_at(start.scope, node)]
        yield from slice_origins(points, bound_rule, ast.unparse(node), most=MOST_PLACES)
