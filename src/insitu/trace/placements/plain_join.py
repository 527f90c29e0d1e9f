"""Values of ranks that are not arrays: Python values, and tensors of which statistics at most were recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import filterfalse
from typing import Any

from insitu.trace.compare.closeness import close_plain
from insitu.trace.event import Stats, TensorFacts
from insitu.trace.placements.joined_value import JoinedValue
from insitu.trace.placements.part import LocalPart
from insitu.trace.placements.statistics_of_parts import combined_stats

Parts = tuple[LocalPart, ...]


def joined_plain(parts: Parts, whole: Any) -> JoinedValue:
    """Values that are not arrays, as one process would have them."""
    values = [part.value for part in parts]
    if len(values) == 1:
        return JoinedValue(values[0], parts, "one rank")
    if TensorFacts in map(type, values):
        return _joined_facts(parts, whole)
    return _joined_python(parts, values, whole)


def _joined_python(parts: Parts, values: list[Any], whole: Any) -> JoinedValue:
    """Python values: the same on all ranks, or numbers that are averaged; else the one that differs from the whole."""
    if all(map(_is_same_as(values[0]), values)):
        return JoinedValue(values[0], parts, "copies")
    if set(map(type, values)) == {float}:
        return JoinedValue(sum(values) / len(values), parts, "mean")
    others = filterfalse(_is_same_as(whole), values)
    return JoinedValue(next(others, values[0]), parts, "unequal copies", are_copies_equal=False)


def _is_same_as(value: Any) -> Callable[[Any], bool]:
    return partial(_is_same, value)


def _is_same(one: Any, other: Any) -> bool:
    found = close_plain(one, other, 0.0, 0.0)
    return found is not None and found.same is True


def _joined_facts(parts: Parts, whole: Any) -> JoinedValue:
    """Tensors without values: with the statistics of the whole tensor, if the parts make it up."""
    first = parts[0].value
    stats = list(filter(None, [_stats(part.value) for part in parts]))
    own = _stats(whole)
    if own is None or len(stats) < len(parts):
        return JoinedValue(first, parts, "no values")
    combined = combined_stats(stats, own.count)
    if combined is None:
        return JoinedValue(first, parts, "none")
    return JoinedValue(replace(first, shape=whole.shape, strides=None, stats=combined), parts, "statistics")


def _stats(value: Any) -> Stats | None:
    if isinstance(value, TensorFacts):
        return value.stats
    return None
