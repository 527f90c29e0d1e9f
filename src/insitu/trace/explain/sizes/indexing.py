"""The sizes of `x[...]`: which dimension of the tensor, or of an index, each dimension of the result is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from insitu.trace.event import TensorFacts, Word
from insitu.trace.explain.sizes.operator_call import UNSURE, OperatorCall, PassedOn

BOOLEAN = "b8"
ELLIPSIS = "..."


@dataclass(slots=True, frozen=True)
class IndexedDimension:
    """A dimension of the result: the one of the tensor that a slice goes along, or the one of an index."""

    source: PassedOn | None


def indexed(call: OperatorCall, dim: int) -> PassedOn | None:
    """A dimension of `x[...]`; None where a slice, a mask or None gave it a new size."""
    found = list(_dimensions(call))
    if len(found) != len(call.shape):
        return UNSURE
    source = found[dim].source
    if source is None or call.inputs[source.input].shape[source.dim] != call.shape[dim]:
        return None
    return source


def _dimensions(call: OperatorCall) -> Iterator[IndexedDimension]:
    """The dimensions of the result, as far as the index says them. Slices and `...` are recorded as words."""
    rank = len(call.inputs[0].shape)
    parts = _parts(call.argument(1, "index"))
    used = sum(part is not None and part != ELLIPSIS for part in parts)
    place = 0
    for part in parts:
        if part is None:
            yield IndexedDimension(None)
        elif part == ELLIPSIS:
            end = place + rank - used
            yield from _kept(place, end)
            place = end
        else:
            yield from _indexed_by(call, part, place)
            place += 1
    yield from _kept(place, rank)


def _kept(start: int, end: int) -> Iterator[IndexedDimension]:
    """Dimensions of the tensor that stay as they are."""
    return (IndexedDimension(PassedOn(0, place)) for place in range(start, end))


def _parts(index: Any) -> tuple[Any, ...]:
    if isinstance(index, (tuple, list)):
        return tuple(index)
    return (index,)


def _indexed_by(call: OperatorCall, part: Any, place: int) -> Iterator[IndexedDimension]:
    """The dimensions that one part of an index leaves: none for a number, one for a slice, those of a tensor."""
    if isinstance(part, Word) and ":" in part:
        yield IndexedDimension(PassedOn(0, place))
    elif isinstance(part, TensorFacts) and part.dtype != BOOLEAN:
        input = call.index_of(part)
        for dim in range(len(part.shape)):
            yield IndexedDimension(None if input is None else PassedOn(input, dim))
    elif isinstance(part, TensorFacts):
        yield IndexedDimension(None)
