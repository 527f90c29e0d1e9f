"""Where a dtype comes from: the expression that has it, although what it is computed from has another one."""

from __future__ import annotations

import ast

from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.expression_parts import COMPREHENSIONS, parts_of
from insitu.trace.explain.slices.number_kinds import PYTHON, KindReader, NumberKind
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver, inside_comprehension
from insitu.trace.explain.slices.slice_walk import CERTAIN, POSSIBLE, REMOTE, Rule, Verdict
from insitu.trace.explain.slices.source_callees import class_of

# Functions that read numbers from elsewhere: the file decides their dtype.
READING = frozenset(
    (
        "load",
        "read_csv",
        "read_parquet",
        "frombuffer",
        "fromfile",
        "to_numpy",
        "read_table",
        "loadmat",
        "imread",
        "open",
    )
)
# Functions that make a tensor of an array and keep its dtype.
ENTERING = frozenset(("from_numpy", "as_tensor", "tensor"))


def dtype_rule(wanted: str) -> Rule:
    """The rule for numbers of a dtype: `f64`."""
    readers: dict[int, KindReader] = {}

    def judge(point: Point, resolver: Resolver) -> Verdict:
        reader = readers.setdefault(id(resolver), KindReader(resolver))
        return _verdict(point, reader, wanted)

    return judge


def _verdict(point: Point, reader: KindReader, wanted: str) -> Verdict:
    if isinstance(point.node, ast.Constant):
        return Verdict()
    if reader.resolver.behind(point) is not None:
        return Verdict()
    kind, inputs = reader.kind(point), _inputs(point)
    if kind is None:
        return Verdict(REMOTE * (called_name(point.node) in READING), inputs)
    if kind.dtype != wanted:
        return Verdict()
    if kind.library == PYTHON:
        return Verdict(0, inputs)
    kinds = [reader.kind(each) for each in inputs]
    earlier = [part for part, each in zip(inputs, kinds, strict=True) if each is None or _has(each, wanted)]
    is_first = not any(each is not None and _has(each, wanted) for each in kinds)
    if is_first:
        return Verdict(CERTAIN, tuple(earlier))
    return Verdict(POSSIBLE * (called_name(point.node) in ENTERING), tuple(earlier))


def _inputs(point: Point) -> tuple[Point, ...]:
    """The parts whose dtype can be that of the result: the items of a comprehension, but not what it goes over."""
    node = point.node
    if isinstance(node, COMPREHENSIONS):
        return (inside_comprehension(point, node),)
    is_new_object = isinstance(node, ast.Call) and class_of(point.part(node.func)) is not None
    return () if is_new_object else parts_of(point)


def _has(kind: NumberKind, wanted: str) -> bool:
    """Whether numbers have the dtype of their own: those of Python take the dtype of others."""
    return kind.dtype == wanted and kind.library != PYTHON
