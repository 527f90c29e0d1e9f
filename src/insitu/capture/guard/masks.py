"""Masks that keep the padding and drop the rest: read from the tape, without a look at values.

The embedding says which number is the padding. A mask is known by its history: a comparison of the same numbers with
the padding, behind calls that only move, convert or negate it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.accumulation import operation_at
from insitu.capture.guard.clipping import calls_since
from insitu.capture.tensors import Value
from insitu.trace.step_health import PaddingMask

MOST_MOVES = 20
COMPARISONS = {"eq": True, "ne": False}
NEGATIONS = frozenset({"logical_not", "bitwise_not", "invert", "rsub"})
DROPPING = ("key_padding_mask", "src_key_padding_mask")  # what a module calls a mask that is True where nothing counts


@dataclass(frozen=True, slots=True)
class Comparison:
    """A mask that is True where numbers are equal to another one or, unless `is_equal`, where they differ."""

    numbers: Value
    other: Any
    is_equal: bool
    at: int


@dataclass(frozen=True, slots=True)
class MaskUse:
    """A mask of a call that keeps what is under the mask or, if it `drops`, the rest."""

    mask: Value
    drops: bool


def padding_masks(reading: Reading) -> Iterator[PaddingMask]:
    """The masks that keep nothing but the padding."""
    calls = list(calls_since(reading.tape, 0))
    padding = [(value, number) for at in calls for value, number in padded_numbers(reading, at)]
    if not padding:
        return
    met: set[int] = set()  # a mask is used in each layer
    for at in calls:
        use = mask_use(reading, at)
        found = comparison(reading, use.mask) if use is not None else None
        if use is None or found is None or found.at in met:
            continue
        met.add(found.at)
        is_padding = any(found.numbers is value and found.other == number for value, number in padding)
        if is_padding and found.is_equal != use.drops:
            yield PaddingMask(reading.call(found.at), reading.call(at), int(found.other))


def padded_numbers(reading: Reading, at: int) -> Iterator[tuple[Value, Any]]:
    """The numbers that an embedding looks up, and the one among them that is the padding."""
    if operation_at(reading, at).base != "embedding":
        return
    padding = reading.kwargs(at).get("padding_idx")
    numbers = next(iter(values(reading.args(at)[:1])), None)
    if isinstance(padding, int) and numbers is not None:
        yield numbers, padding


def mask_use(reading: Reading, at: int) -> MaskUse | None:
    """The mask of a call that keeps or drops what requires a gradient; None if the call has none."""
    args, kwargs = reading.args(at), reading.kwargs(at)
    dropping = next((kwargs[name] for name in DROPPING if isinstance(kwargs.get(name), Value)), None)
    if dropping is not None:
        return MaskUse(dropping, drops=True)
    base = operation_at(reading, at).base
    if base == "mul":
        return product_mask(args)
    is_filled = base == "masked_fill" and len(args) > 1 and isinstance(args[1], Value)
    if is_filled and requires_gradient(args[0]):
        return MaskUse(args[1], drops=True)
    return None


def product_mask(args: list[Any]) -> MaskUse | None:
    """The factor of a product that requires no gradient, where the other one does."""
    factors = [item for item in args if isinstance(item, Value)]
    masks = [item for item in factors if not item.requires_grad]
    if len(factors) == 2 and len(masks) == 1:
        return MaskUse(masks[0], drops=False)
    return None


def requires_gradient(item: Any) -> bool:
    """Whether an argument is a tensor that requires a gradient."""
    return isinstance(item, Value) and bool(item.requires_grad)


def comparison(reading: Reading, mask: Value) -> Comparison | None:
    """The comparison that a mask comes from, behind calls that move, convert or negate it."""
    is_negated, value = False, mask
    for _ in range(MOST_MOVES):
        at = reading.producer(value)
        if at is None:
            return None
        what, args = operation_at(reading, at), reading.args(at)
        inputs = [item for item in args if isinstance(item, Value)]
        if what.base in COMPARISONS:
            return compared(args, at, is_equal=COMPARISONS[what.base] != is_negated)
        is_negation = what.base in NEGATIONS or what.name in NEGATIONS
        if not inputs or not (is_negation or what.is_move):
            return None
        is_negated, value = is_negated != is_negation, inputs[0]
    return None


def compared(args: list[Any], at: int, *, is_equal: bool) -> Comparison | None:
    """A comparison of numbers with another one; None if both are tensors."""
    is_with_number = len(args) == 2 and isinstance(args[0], Value) and isinstance(args[1], int)
    if is_with_number:
        return Comparison(args[0], args[1], is_equal, at)
    return None
