"""Mistakes in shapes: broadcasting, views, expansions, dimensions that do not exist."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, before_dot
from insitu.trace.explain.checks.broadcasting import Shape, SizeConflict, conflict_misfit, size_conflict
from insitu.trace.explain.checks.registry import Checks, listing
from insitu.trace.explain.explanation import Misfit, ShapeRow

CHECKS = Checks()
# Families that broadcast some dimensions only; other checks explain what does not fit in them.
NOT_ELEMENTWISE = ("product", "attention")
_LOSSES = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss")
ROLES = {
    "masked_fill": ("input", "mask", "value"),
    "where": ("condition", "input", "other"),
    **dict.fromkeys(_LOSSES, ("input", "target", "weight")),
}


@CHECKS.add("cross_entropy nll_loss", tensors="input target")
def samples_and_targets(case: Case, scores: TensorFacts, target: TensorFacts) -> Misfit | None:
    """Scores and targets of different numbers of samples, or targets of another shape."""
    if len(scores.shape) < 2 or not target.shape:
        return None  # scores without a batch are of one sample
    rows = case.rows(scores=scores, target=target)
    if scores.shape[0] != target.shape[0]:
        return Misfit(f"{scores.shape[0]} samples in the scores, {target.shape[0]} in the targets", rows)
    wanted = (scores.shape[0], *scores.shape[2:])
    if dtype_named(target.dtype).is_floating or target.shape == wanted:
        return None
    text = f"the targets must be {listing(wanted)}"
    if len(scores.shape) > 2 and target.shape == scores.shape[:-1]:
        return Misfit(text, rows, way_out="the classes must be dimension 1 of the scores: transpose them there")
    return Misfit(text, rows)


@CHECKS.add("view reshape unflatten view_as", says="view size is not compatible", tensors="input")
def view_of_strided(case: Case, match: re.Match[str], given: TensorFacts) -> Misfit:
    """A view of a tensor that is not laid out for it."""
    reason = "the tensor is not contiguous"
    if given.strides:
        reason = f"the strides of the tensor are {listing(given.strides)}"
    way_out = ".reshape(…), or .contiguous() first"
    return Misfit(f"the view would have to copy: {reason}", case.rows(input=given), way_out=way_out)


@CHECKS.add("view reshape", tensors="input")
def number_of_elements(case: Case, given: TensorFacts) -> Misfit | None:
    """A view or a reshape to another number of elements."""
    sizes, count = requested_sizes(case), _element_count(given.shape)
    if count is None or not _are_valid(sizes):
        return None
    text = f"{_product(given.shape)} elements do not fit into"
    rows = case.rows(input=given)
    if -1 not in sizes:
        if count == math.prod(sizes):
            return None
        return Misfit(f"{text} {_product(sizes)}", rows, way_out=_other_size(count, sizes))
    known = -math.prod(sizes)  # one of the sizes is -1
    if not known or count % known == 0:
        return None
    return Misfit(f"{text} {_times(sizes)}: {count:,} is not a multiple of {known:,}", rows)


def _element_count(shape: Shape) -> int | None:
    """The number of elements; None if a size is symbolic."""
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) == len(shape):
        return math.prod(sizes)
    return None


def _are_valid(sizes: Sequence[int]) -> bool:
    """Whether sizes may be asked for at all; if not, the message of torch says why."""
    return min(sizes, default=-2) >= -1 and sizes.count(-1) <= 1


def _other_size(count: int, sizes: Sequence[int]) -> str:
    """The first or the last size that would make it fit."""
    index = _open_index(count, sizes)
    if index is None:
        return ""
    others = math.prod(sizes) // sizes[index]
    return f"with -1 or {count // others} in place of {sizes[index]} it would fit"


def _open_index(count: int, sizes: Sequence[int]) -> int | None:
    """The index of the first or the last size, if torch could compute it from the others."""
    for index, others in ((0, math.prod(sizes[1:])), (-1, math.prod(sizes[:-1]))):
        if others and sizes[index] and count % others == 0:
            return index
    return None


def size_to_leave_open(case: Case) -> int | None:
    """The index of the size of a view or reshape that -1 would make fit."""
    given, sizes = case.tensor(0, "input"), requested_sizes(case)
    count = None if given is None else _element_count(given.shape)
    if count is None or -1 in sizes or not _are_valid(sizes):
        return None
    return _open_index(count, sizes)


def requested_sizes(case: Case) -> list[int]:
    """The sizes that a call asks for, as one argument or as several; empty if they are not all integers."""
    assert case.call is not None
    sizes = case.call.args[1:] or case.argument(1, "shape") or case.argument(1, "size", ())
    if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)):
        sizes = sizes[0]
    if {int}.issuperset(map(type, sizes)):
        return list(sizes)
    return []


def _product(sizes: Sequence[Any]) -> str:
    if len(sizes) > 1:
        return f"{_times(sizes)} = {math.prod(sizes):,}"
    return _times(sizes)


def _times(sizes: Sequence[Any]) -> str:
    return " × ".join(map(str, sizes)) or "1"


@CHECKS.add("expand expand_as broadcast_to", tensors="input")
def expanded_dimension(case: Case, given: TensorFacts) -> Misfit | None:
    """An expansion of a dimension that is not 1."""
    other = case.tensor(1, "other")
    sizes = requested_sizes(case) if other is None else list(map(int, other.shape))
    rows = (case.row("input", given), ShapeRow("wanted", tuple(sizes)))
    if len(sizes) < len(given.shape):
        return Misfit(f"the tensor has {len(given.shape)} dimensions, the call asks for {len(sizes)}", rows)
    for index in _from_the_right(given.shape):
        if not _expands(given.shape[index], sizes[index]):
            text = f"dimension {index} is {given.shape[index]}, and only 1 can be expanded to {sizes[index]}"
            return Misfit(text, rows, index, _words_of_dimension(given.shape, sizes))
    return None


def _from_the_right(shape: Shape) -> range:
    """The dimensions of a shape: -1, -2, …"""
    return range(-1, -len(shape) - 1, -1)


def _expands(size: int | str, wanted: int) -> bool:
    return size == 1 or wanted in (-1, size)


def _words_of_dimension(shape: Shape, sizes: list[int]) -> str:
    dimension = missing_dimension(shape, sizes)
    if dimension is None:
        return ""
    return f".unsqueeze({dimension}) first would fit"


def missing_dimension(shape: Shape, sizes: list[int]) -> int | None:
    """The dimension to add, if one makes it fit."""
    if len(shape) >= len(sizes):
        return None
    for dimension in _from_the_right(shape):
        split = len(shape) + dimension + 1
        longer = (*shape[:split], 1, *shape[split:])
        if all(map(_expands, reversed(longer), reversed(sizes))):
            return dimension
    return None


@CHECKS.add("permute", tensors="input")
def permuted_dimensions(case: Case, given: TensorFacts) -> Misfit | None:
    """A permutation of more or fewer dimensions than there are."""
    order = requested_sizes(case) or case.argument(1, "dims")
    if not isinstance(order, (list, tuple)) or len(order) == len(given.shape):
        return None
    text = f"the tensor has {len(given.shape)} dimensions, the order names {len(order)}"
    return Misfit(text, (case.row("input", given), ShapeRow("order", tuple(order))))


@CHECKS.add(says=r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)")
def dimension_of_tensor(case: Case, match: re.Match[str]) -> Misfit:
    """A dimension that the tensor does not have."""
    return Misfit(f"dimension {match[3]} does not exist: there are {match[1]} … {match[2]}", case.first_row("input"))


@CHECKS.add(says=r"axis (-?\d+) is out of bounds for array of dimension (\d+)")
def axis_of_array(case: Case, match: re.Match[str]) -> Misfit:
    """An axis that the array does not have."""
    return Misfit(f"dimension {match[1]} does not exist: there are {match[2]}", case.first_row("input"))


@CHECKS.add(says=r"must be batches of square matrices, but they are (\d+) by (\d+) matrices")
def matrix_is_not_square(case: Case, match: re.Match[str]) -> Misfit:
    """An inverse, a determinant or a decomposition of a matrix that is not square."""
    return Misfit(f"the matrix has {match[1]} rows and {match[2]} columns and must be square", case.first_row("input"))


@CHECKS.add(says="does not match the shape of the indexed tensor", tensors="input", operands=2)
def shape_of_mask(case: Case, match: re.Match[str], given: TensorFacts) -> Misfit:
    """A mask of another shape than the tensor that it selects from."""
    mask = case.operands[1].facts
    rows = case.rows(tensor=given, mask=mask)
    for dimension, (size, selected) in enumerate(zip(given.shape, mask.shape, strict=False)):
        if size != selected:
            return Misfit(f"dimension {dimension}: {size} and {selected} differ", rows)
    return Misfit("the mask has more dimensions", rows)


@CHECKS.add("gather scatter scatter_add take_along_dim", tensors="input", operands=2)
def dimensions_of_index(case: Case, given: TensorFacts) -> Misfit | None:
    """An index of another number of dimensions than its tensor."""
    index = case.operands[1].facts
    missing = len(given.shape) - len(index.shape)
    if missing == 0:
        return None
    text = f"the input has {len(given.shape)} dimensions, the index {len(index.shape)}"
    misfit = Misfit(text, case.rows(input=given, index=index))
    if missing == 1:
        name = before_dot(case.name_of(index) or "index")
        return replace(misfit, way_out=f"{name}.unsqueeze(-1)")
    return misfit


@CHECKS.add(
    says=r"split_sizes to sum exactly to (\d+) \(.* dimension (-?\d+)\), but got split_sizes=\[(.*?)\]",
)
def sizes_of_split(case: Case, match: re.Match[str]) -> Misfit:
    """Parts whose sizes do not add up to the size of the dimension."""
    total = sum(_sizes_in(match[3]))
    return Misfit(f"the parts {match[3]} add up to {total}, dimension {match[2]} is {match[1]}")


def _sizes_in(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"-?\d+", text)))


@CHECKS.add("__setitem__", says=r"Target sizes: \[(.*?)\]\. +Tensor sizes: \[(.*?)\]")
def stored_in_slice(case: Case, match: re.Match[str]) -> Misfit:
    """A value that does not fit into a slice."""
    return _stored_value(case, _sizes_in(match[1]), _sizes_in(match[2]))


@CHECKS.add("__setitem__", says=r"value tensor of shape \[(.*?)\] cannot be broadcast to .* shape \[(.*?)\]")
def stored_by_mask(case: Case, match: re.Match[str]) -> Misfit:
    """A value that does not fit into the elements that a mask selects."""
    return _stored_value(case, _sizes_in(match[2]), _sizes_in(match[1]))


def _stored_value(case: Case, place: Shape, value: Shape) -> Misfit:
    facts = case.tensor(2, "value")
    name = "" if facts is None else case.name_of(facts)
    rows = (ShapeRow("place", place), ShapeRow("value", value, name))
    for dimension in _from_the_right(min(place, value, key=len)):
        room, size = place[dimension], value[dimension]
        if size not in (1, room):
            return Misfit(f"dimension {dimension}: the place has {room}, the value {size}", rows, dimension)
    return Misfit(f"the place has {len(place)} dimensions, the value {len(value)}", rows)


@CHECKS.add(operands=2)
def broadcast_shapes(case: Case) -> Misfit | None:
    """Shapes that do not fit each other, aligned from the right."""
    if not case.operation.broadcasts:
        return None
    return conflict_misfit(_shapes(case), _broadcast_rows(case))


@CHECKS.add(says=r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", operands=2)
def broadcast_sizes(case: Case, match: re.Match[str]) -> Misfit | None:
    """The same for functions that are not known to broadcast, if the message names the sizes."""
    if case.operation.broadcasts or case.operation.family in NOT_ELEMENTWISE:
        return None
    conflict = _conflict(case)
    if conflict is None or set(conflict.sizes) != {int(match[1]), int(match[2])}:
        return None  # the function broadcasts other shapes
    return Misfit(conflict.text, _broadcast_rows(case), conflict.dimension)


@CHECKS.add("binary_cross_entropy binary_cross_entropy_with_logits", operands=2)
def loss_without_broadcasting(case: Case) -> Misfit | None:
    """A loss that does not broadcast although its sizes would fit."""
    given, target = map(attrgetter("facts"), case.operands[:2])
    if given.shape == target.shape or _conflict(case) is not None:
        return None
    return Misfit("input and target must have the same shape", _broadcast_rows(case))


@CHECKS.add(operands=2)
def result_larger_than_its_place(case: Case) -> Misfit | None:
    """A result that is larger than the tensor that it is written into."""
    place, other = map(attrgetter("facts"), case.operands[:2])
    is_in_place = case.operation.broadcasts and case.name.endswith("_")
    is_larger = len(other.shape) > len(place.shape)
    if not is_in_place or not is_larger or _conflict(case) is not None:
        return None
    return Misfit("the result is larger than left, which it is written into", _broadcast_rows(case))


def _conflict(case: Case) -> SizeConflict | None:
    return size_conflict(_shapes(case))


def _shapes(case: Case) -> list[Shape]:
    return list(map(attrgetter("facts.shape"), case.operands))


def _broadcast_rows(case: Case) -> tuple[ShapeRow, ...]:
    """The operands by their roles; by numbers, if the roles are not known."""
    count = len(case.operands)
    roles: tuple[str, ...] = ROLES.get(case.operation.base, ("left", "right"))
    if count > len(roles):
        roles = tuple(map(str, range(count)))
    return tuple(case.row(role, operand.facts) for role, operand in zip(roles, case.operands, strict=False))
