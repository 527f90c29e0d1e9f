"""Calls that change a size: from which dimension of which input the new size was computed."""

from __future__ import annotations

from math import prod

from insitu.trace.explain.sizes.operator_call import OperatorCall, PassedOn, Shape
from insitu.trace.explain.sizes.rules import RESIZING, same_index

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
# What keeps the order of the dimensions, and changes the sizes of some.
IN_PLACE = frozenset((*RESIZING, *CONVOLUTIONS, "repeat", "expand", "narrow", "chunk", "split", "tensor_split"))
MERGING = frozenset(("reshape", "flatten", "unflatten"))


def changed_from(call: OperatorCall, dim: int) -> PassedOn | None:
    """The dimension that a call computed a size from; None if the call did not compute it from another one."""
    base = call.operation.base
    if base == "cat":
        return _largest_part(call, dim)
    if base in MERGING:
        return _merged(call, dim)
    if base in IN_PLACE:
        return same_index(call, dim)
    if base == "getitem":
        return _sliced(call, dim)
    return None


def _largest_part(call: OperatorCall, dim: int) -> PassedOn | None:
    """The tensor that makes up most of a concatenation."""
    sizes = [facts.shape[dim] if dim < len(facts.shape) else 0 for facts in call.inputs]
    known = [size if isinstance(size, int) else 0 for size in sizes]
    if not known:
        return None
    return PassedOn(known.index(max(known)), dim)


def _merged(call: OperatorCall, dim: int) -> PassedOn | None:
    """The first of several dimensions that became one."""
    source = call.inputs[0].shape
    before = prod(_numbers(call.shape[:dim]))
    for place, size in enumerate(source):
        is_first = size != 1 and prod(_numbers(source[:place])) == before
        if is_first:
            return PassedOn(0, place)
    return None


def _numbers(shape: Shape) -> list[int]:
    return [size for size in shape if isinstance(size, int)]


def _sliced(call: OperatorCall, dim: int) -> PassedOn | None:
    """The dimension that a slice shortens, where the index keeps all dimensions."""
    if len(call.inputs[0].shape) == len(call.shape):
        return PassedOn(0, dim)
    return None
