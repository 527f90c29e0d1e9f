"""What does not fit in shapes: broadcasting, views, dimensions that are not there."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, before_dot
from insitu.trace.explain.explanation import Misfit, ShapeRow

# Families that broadcast some dimensions only; other checks explain what does not fit in them.
NOT_ELEMENTWISE = ("product", "attention")
SAME_SHAPE = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})


def broadcast(case: Case) -> Misfit | None:
    """Shapes that do not go together, aligned from the right."""
    what = case.operation
    name = what.base
    told = re.search(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", case.message)
    if len(case.operands) < 2 or what.family in NOT_ELEMENTWISE or not (what.broadcasts or told):
        return None
    facts = [operand.facts for operand in case.operands]
    roles = ("left", "right") if len(facts) == 2 else tuple(map(str, range(len(facts))))
    if name in ("masked_fill", "where", *SAME_SHAPE, "mse_loss", "l1_loss"):
        roles = {"masked_fill": ("input", "mask", "value"), "where": ("condition", "input", "other")}.get(
            name, ("input", "target", "weight")
        )
    if len(facts) > len(roles):
        roles = tuple(map(str, range(len(facts))))
    rows = tuple(case.row(role, each) for role, each in zip(roles, facts, strict=False))
    for index in range(1, max(len(each.shape) for each in facts) + 1):
        sizes = list(
            dict.fromkeys(each.shape[-index] for each in facts if len(each.shape) >= index and each.shape[-index] != 1)
        )
        if len(sizes) > 1:
            if not what.broadcasts and told is not None and {int(told[1]), int(told[2])} != set(sizes):
                return None  # the function broadcasts something else
            return Misfit(f"dimension {-index}: {sizes[0]} and {sizes[1]} differ and neither is 1", rows, -index)
    if name in SAME_SHAPE and facts[0].shape != facts[1].shape:
        return Misfit("input and target must have the same shape", rows)
    return _grown(case, facts, rows)


def _grown(case: Case, facts: list[TensorFacts], rows: tuple[ShapeRow, ...]) -> Misfit | None:
    """A result that is larger than the tensor it is to be written into."""
    if case.name.endswith("_") and len(facts[0].shape) < len(facts[1].shape):
        return Misfit("the result is larger than left, into which it is to be written", rows)
    return None


def batch_sizes(case: Case) -> Misfit | None:
    """Scores and targets of different numbers of samples."""
    scores, target = case.argument(0, "input"), case.argument(1, "target")
    if case.name not in ("cross_entropy", "nll_loss") or not isinstance(scores, TensorFacts):
        return None
    if not isinstance(target, TensorFacts) or len(scores.shape) < 2 or not target.shape:
        return None  # scores without a batch are of one sample
    rows = (case.row("scores", scores), case.row("target", target))
    if scores.shape[0] != target.shape[0]:
        return Misfit(f"{scores.shape[0]} samples in the scores, {target.shape[0]} in the targets", rows)
    wanted = (scores.shape[0], *scores.shape[2:])
    if not dtype_named(target.dtype).is_floating and target.shape != wanted:
        classes_last = len(scores.shape) > 2 and target.shape == scores.shape[:-1]
        advice = "the classes are dimension 1 of the scores: transpose them there" if classes_last else ""
        return Misfit(f"the targets must be {', '.join(map(str, wanted))}", rows, advice=advice)
    return None


def viewed(case: Case) -> Misfit | None:
    """A view or a reshape to another number of elements, or of a tensor that is not laid out for it."""
    given = case.argument(0, "input")
    if case.name not in ("view", "reshape", "unflatten", "view_as") or not isinstance(given, TensorFacts):
        return None
    rows = (case.row("input", given),)
    if "view size is not compatible" in case.message:
        strides = f"its strides are {', '.join(map(str, given.strides))}" if given.strides else "it is not contiguous"
        return Misfit(f"the view would have to copy: {strides}", rows, advice=".reshape(…), or .contiguous() first")
    sizes = _sizes(case)
    if case.name not in ("view", "reshape") or not sizes or not all(isinstance(size, int) for size in given.shape):
        return None
    if min(sizes) < -1 or sizes.count(-1) > 1:
        return None  # the message says it
    has, known = math.prod(int(size) for size in given.shape), math.prod(size for size in sizes if size != -1)
    text = f"{_product(given.shape)} elements do not go into"
    if -1 not in sizes:
        return Misfit(f"{text} {_product(sizes)}", rows, advice=_completed(has, sizes)) if has != known else None
    text = f"{text} {_times(sizes)}: {has:,} is no multiple of {known:,}"
    return Misfit(text, rows) if known and has % known else None


def _completed(has: int, sizes: Sequence[int]) -> str:
    """The one size that could be another, if the first is the batch."""
    rest = math.prod(sizes[1:])
    if rest and has % rest == 0:
        return f"with -1 or {has // rest} in place of {sizes[0]} it would fit"
    last = math.prod(sizes[:-1])
    return f"with -1 or {has // last} in place of {sizes[-1]} it would fit" if last and has % last == 0 else ""


def _sizes(case: Case) -> list[int]:
    """The sizes that were asked for, however they were given."""
    assert case.call is not None
    given = case.call.args[1:] or (case.call.kwargs.get("shape") or case.call.kwargs.get("size") or ())
    flat = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    return list(flat) if all(type(size) is int for size in flat) else []


def _product(sizes: Sequence[Any]) -> str:
    return f"{_times(sizes)} = {math.prod(sizes):,}" if len(sizes) > 1 else _times(sizes)


def _times(sizes: Sequence[Any]) -> str:
    return " × ".join(map(str, sizes)) or "1"


def expanded(case: Case) -> Misfit | None:
    """An expansion of a dimension that is not 1."""
    given = case.argument(0, "input")
    if case.name not in ("expand", "expand_as", "broadcast_to") or not isinstance(given, TensorFacts):
        return None
    sizes = _sizes(case)
    other = case.argument(1, "other")
    if isinstance(other, TensorFacts):
        sizes = [int(size) for size in other.shape]
    rows = (case.row("input", given), ShapeRow("wanted", tuple(sizes)))
    if len(sizes) < len(given.shape):
        return Misfit(f"there are {len(given.shape)} dimensions, {len(sizes)} are asked for", rows)
    for index in range(1, len(given.shape) + 1):
        if given.shape[-index] != 1 and sizes[-index] not in (-1, given.shape[-index]):
            advice = _unsqueezed(given.shape, sizes)
            return Misfit(
                f"dimension {-index} is {given.shape[-index]}, and only 1 can be expanded to {sizes[-index]}",
                rows,
                -index,
                advice,
            )
    return None


def _unsqueezed(shape: tuple[Any, ...], sizes: list[int]) -> str:
    """The dimension that was forgotten, if one makes it fit."""
    for place in range(-1, -len(shape) - 1, -1):
        longer = [*shape[: len(shape) + place + 1], 1, *shape[len(shape) + place + 1 :]]
        fits = all(old in (1, new) or new == -1 for old, new in zip(reversed(longer), reversed(sizes), strict=False))
        if fits and len(longer) <= len(sizes):
            return f".unsqueeze({place}) first would fit"
    return ""


def dimension_number(case: Case) -> Misfit | None:
    """A dimension that the tensor does not have."""
    found = re.search(
        r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)", case.message
    )
    axis = re.search(r"axis (-?\d+) is out of bounds for array of dimension (\d+)", case.message)
    if found is None and axis is None:
        return None
    rows = (case.row("input", case.operands[0].facts),) if case.operands else ()
    if found is not None:
        return Misfit(f"there is no dimension {found[3]}: there are {found[1]} … {found[2]}", rows)
    assert axis is not None
    return Misfit(f"there is no dimension {axis[1]}: there are {axis[2]}", rows)


def permuted(case: Case) -> Misfit | None:
    """A permutation of more or fewer dimensions than there are."""
    given = case.argument(0, "input")
    if case.name != "permute" or not isinstance(given, TensorFacts):
        return None
    order = _sizes(case) or case.argument(1, "dims")
    if not isinstance(order, (list, tuple)) or len(order) == len(given.shape):
        return None
    text = f"the tensor has {len(given.shape)} dimensions, the order names {len(order)}"
    return Misfit(text, (case.row("input", given), ShapeRow("order", tuple(order))))


def indexed_by_mask(case: Case) -> Misfit | None:
    """A mask of another shape than what it selects from, or an index of another number of dimensions."""
    given = case.argument(0, "input")
    if not isinstance(given, TensorFacts) or len(case.operands) < 2:
        return None
    other = case.operands[1].facts
    if "does not match the shape of the indexed tensor" in case.message:
        rows = (case.row("tensor", given), case.row("mask", other))
        sizes = zip(given.shape, other.shape, strict=False)
        where = next((i for i, (size, kept) in enumerate(sizes) if size != kept), None)
        text = (
            f"dimension {where}: {given.shape[where]} and {other.shape[where]} differ"
            if where is not None
            else "the mask has more dimensions"
        )
        return Misfit(text, rows)
    if case.operation.base in ("gather", "scatter", "scatter_add", "take_along_dim") and len(given.shape) != len(
        other.shape
    ):
        rows = (case.row("input", given), case.row("index", other))
        name = before_dot(case.name_of(other) or "index")
        advice = f"{name}.unsqueeze(-1)" if len(other.shape) == len(given.shape) - 1 else ""
        return Misfit(f"the input has {len(given.shape)} dimensions, the index {len(other.shape)}", rows, advice=advice)
    return None


def stored(case: Case) -> Misfit | None:
    """A value that does not go where it is to be stored."""
    sliced = r"Target sizes: \[(?P<place>.*?)\]\. +Tensor sizes: \[(?P<value>.*?)\]"
    masked = r"value tensor of shape \[(?P<value>.*?)\] cannot be broadcast to .* shape \[(?P<place>.*?)\]"
    found = re.search(sliced, case.message) or re.search(masked, case.message)
    if found is None or case.name != "__setitem__":
        return None
    place, value = (tuple(int(size) for size in found[part].split(",") if size.strip()) for part in ("place", "value"))
    facts = case.argument(2, "value")
    row = ShapeRow("value", value, case.name_of(facts) if isinstance(facts, TensorFacts) else "")
    rows = (ShapeRow("place", place), row)
    for index in range(1, min(len(place), len(value)) + 1):
        if value[-index] not in (1, place[-index]):
            return Misfit(f"dimension {-index}: the place has {place[-index]}, the value {value[-index]}", rows, -index)
    return Misfit(f"the place has {len(place)} dimensions, the value {len(value)}", rows)


def split_sizes(case: Case) -> Misfit | None:
    """Parts that do not add up."""
    found = re.search(
        r"split_sizes to sum exactly to (\d+) \(.* dimension (-?\d+)\), but got split_sizes=\[(.*?)\]",
        case.message,
    )
    if found is None:
        return None
    total = sum(int(size) for size in found[3].split(",") if size.strip())
    return Misfit(f"the parts {found[3]} add up to {total}, dimension {found[2]} is {found[1]}")


CHECKS = (
    batch_sizes,
    viewed,
    expanded,
    permuted,
    dimension_number,
    indexed_by_mask,
    split_sizes,
    stored,
    broadcast,
)
