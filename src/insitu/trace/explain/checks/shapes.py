"""Mistakes in shapes: broadcasting, views, expansions, dimensions that do not exist."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, before_dot
from insitu.trace.explain.checks.broadcasting import Shape, SizeConflict, fits_into, size_conflict
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
    are_classes_last = len(scores.shape) > 2 and target.shape == scores.shape[:-1]
    advice = "the classes are dimension 1 of the scores: transpose them there" if are_classes_last else ""
    return Misfit(f"the targets must be {listing(wanted)}", rows, advice=advice)


@CHECKS.add("view reshape unflatten view_as", says="view size is not compatible", tensors="input")
def view_of_strided(case: Case, match: re.Match[str], given: TensorFacts) -> Misfit:
    """A view of a tensor that is not laid out for it."""
    strides = f"its strides are {listing(given.strides)}" if given.strides else "it is not contiguous"
    advice = ".reshape(…), or .contiguous() first"
    return Misfit(f"the view would have to copy: {strides}", case.rows(input=given), advice=advice)


@CHECKS.add("view reshape", tensors="input")
def number_of_elements(case: Case, given: TensorFacts) -> Misfit | None:
    """A view or a reshape to another number of elements."""
    sizes, has = _requested_sizes(case), _element_count(given.shape)
    if has is None or not sizes or not _are_valid(sizes):
        return None
    known = math.prod(size for size in sizes if size != -1)
    is_open = -1 in sizes
    fits = (not known or has % known == 0) if is_open else has == known
    if fits:
        return None
    text = f"{_product(given.shape)} elements do not fit into"
    rows = case.rows(input=given)
    if is_open:
        return Misfit(f"{text} {_times(sizes)}: {has:,} is not a multiple of {known:,}", rows)
    return Misfit(f"{text} {_product(sizes)}", rows, advice=_other_size(has, sizes))


def _element_count(shape: Shape) -> int | None:
    """The number of elements; None if a size is symbolic."""
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) == len(shape):
        return math.prod(sizes)
    return None


def _are_valid(sizes: Sequence[int]) -> bool:
    """Whether sizes may be asked for at all; if not, the message of torch says why."""
    return min(sizes) >= -1 and sizes.count(-1) <= 1


def _other_size(has: int, sizes: Sequence[int]) -> str:
    """The first or the last size that would make it fit."""
    for size, others in ((sizes[0], math.prod(sizes[1:])), (sizes[-1], math.prod(sizes[:-1]))):
        if others and has % others == 0:
            return f"with -1 or {has // others} in place of {size} it would fit"
    return ""


def _requested_sizes(case: Case) -> list[int]:
    """The sizes that a call asks for, as one argument or as several; empty if they are not all integers."""
    assert case.call is not None
    given = case.call.args[1:] or case.argument(1, "shape") or case.argument(1, "size", ())
    is_one_argument = len(given) == 1 and isinstance(given[0], (list, tuple))
    flat = given[0] if is_one_argument else given
    if {int}.issuperset(map(type, flat)):
        return list(flat)
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
    sizes = [int(size) for size in other.shape] if other is not None else _requested_sizes(case)
    rows = (case.row("input", given), ShapeRow("wanted", tuple(sizes)))
    if len(sizes) < len(given.shape):
        return Misfit(f"there are {len(given.shape)} dimensions, {len(sizes)} are asked for", rows)
    wrong = [index for index in range(-1, -len(given.shape) - 1, -1) if not _expands(given.shape[index], sizes[index])]
    if not wrong:
        return None
    index = wrong[0]
    text = f"dimension {index} is {given.shape[index]}, and only 1 can be expanded to {sizes[index]}"
    return Misfit(text, rows, index, _missing_dimension(given.shape, sizes))


def _expands(size: int | str, wanted: int) -> bool:
    return size == 1 or wanted in (-1, size)


def _missing_dimension(shape: Shape, sizes: list[int]) -> str:
    """The dimension to add, if one makes it fit."""
    for place in range(-1, -len(shape) - 1, -1):
        split = len(shape) + place + 1
        longer = (*shape[:split], 1, *shape[split:])
        pairs = zip(reversed(longer), reversed(sizes), strict=False)
        if len(longer) <= len(sizes) and all(_expands(size, wanted) for size, wanted in pairs):
            return f".unsqueeze({place}) first would fit"
    return ""


@CHECKS.add("permute", tensors="input")
def permuted_dimensions(case: Case, given: TensorFacts) -> Misfit | None:
    """A permutation of more or fewer dimensions than there are."""
    order = _requested_sizes(case) or case.argument(1, "dims")
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
    pairs = list(zip(given.shape, mask.shape, strict=False))
    where = next((index for index, (size, selected) in enumerate(pairs) if size != selected), None)
    if where is None:
        return Misfit("the mask has more dimensions", rows)
    return Misfit(f"dimension {where}: {given.shape[where]} and {mask.shape[where]} differ", rows)


@CHECKS.add("gather scatter scatter_add take_along_dim", tensors="input", operands=2)
def dimensions_of_index(case: Case, given: TensorFacts) -> Misfit | None:
    """An index of another number of dimensions than its tensor."""
    index = case.operands[1].facts
    missing = len(given.shape) - len(index.shape)
    if missing == 0:
        return None
    text = f"the input has {len(given.shape)} dimensions, the index {len(index.shape)}"
    advice = f"{before_dot(case.name_of(index) or 'index')}.unsqueeze(-1)" if missing == 1 else ""
    return Misfit(text, case.rows(input=given, index=index), advice=advice)


@CHECKS.add(
    says=r"split_sizes to sum exactly to (\d+) \(.* dimension (-?\d+)\), but got split_sizes=\[(.*?)\]",
)
def sizes_of_split(case: Case, match: re.Match[str]) -> Misfit:
    """Parts that do not add up."""
    total = sum(_sizes_in(match[3]))
    return Misfit(f"the parts {match[3]} add up to {total}, dimension {match[2]} is {match[1]}")


def _sizes_in(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size.strip())


@CHECKS.add("__setitem__", says=r"Target sizes: \[(.*?)\]\. +Tensor sizes: \[(.*?)\]")
def stored_in_slice(case: Case, match: re.Match[str]) -> Misfit:
    """A value that does not fit into a slice."""
    return _stored(case, _sizes_in(match[1]), _sizes_in(match[2]))


@CHECKS.add("__setitem__", says=r"value tensor of shape \[(.*?)\] cannot be broadcast to .* shape \[(.*?)\]")
def stored_by_mask(case: Case, match: re.Match[str]) -> Misfit:
    """A value that does not fit into the elements that a mask selects."""
    return _stored(case, _sizes_in(match[2]), _sizes_in(match[1]))


def _stored(case: Case, place: Shape, value: Shape) -> Misfit:
    facts = case.tensor(2, "value")
    rows = (ShapeRow("place", place), ShapeRow("value", value, case.name_of(facts) if facts is not None else ""))
    dimensions = range(-1, -min(len(place), len(value)) - 1, -1)
    wrong = next((index for index in dimensions if not fits_into((value[index],), (place[index],))), None)
    if wrong is None:
        return Misfit(f"the place has {len(place)} dimensions, the value {len(value)}", rows)
    return Misfit(f"dimension {wrong}: the place has {place[wrong]}, the value {value[wrong]}", rows, wrong)


@CHECKS.add(operands=2)
def broadcast_shapes(case: Case) -> Misfit | None:
    """Shapes that do not fit each other, aligned from the right."""
    conflict = _conflict(case) if case.operation.broadcasts else None
    if conflict is not None:
        return Misfit(conflict.text, _broadcast_rows(case), conflict.dimension)
    return None


@CHECKS.add(says=r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", operands=2)
def broadcast_sizes(case: Case, match: re.Match[str]) -> Misfit | None:
    """The same for functions that are not known to broadcast, if the message names the sizes."""
    known, conflict = case.operation, _conflict(case)
    if known.broadcasts or known.family in NOT_ELEMENTWISE or conflict is None:
        return None
    if set(conflict.sizes) != {int(match[1]), int(match[2])}:
        return None  # the function broadcasts something else
    return Misfit(conflict.text, _broadcast_rows(case), conflict.dimension)


@CHECKS.add("binary_cross_entropy binary_cross_entropy_with_logits", operands=2)
def loss_without_broadcasting(case: Case) -> Misfit | None:
    """A loss that does not broadcast although its sizes would fit."""
    given, target = (operand.facts for operand in case.operands[:2])
    if given.shape == target.shape or _conflict(case) is not None:
        return None
    return Misfit("input and target must have the same shape", _broadcast_rows(case))


@CHECKS.add(operands=2)
def result_larger_than_its_place(case: Case) -> Misfit | None:
    """A result that is larger than the tensor that it is written into."""
    place, other = (operand.facts for operand in case.operands[:2])
    is_in_place = case.operation.broadcasts and case.name.endswith("_")
    if not is_in_place or len(place.shape) >= len(other.shape) or _conflict(case) is not None:
        return None
    return Misfit("the result is larger than left, which it is written into", _broadcast_rows(case))


def _conflict(case: Case) -> SizeConflict | None:
    return size_conflict([operand.facts.shape for operand in case.operands])


def _broadcast_rows(case: Case) -> tuple[ShapeRow, ...]:
    """The operands by their roles; by numbers, if the roles are not known."""
    count = len(case.operands)
    roles: tuple[str, ...] = ROLES.get(case.operation.base, ("left", "right"))
    if count > len(roles):
        roles = tuple(map(str, range(count)))
    return tuple(case.row(role, operand.facts) for role, operand in zip(roles, case.operands, strict=False))
