"""Masks that keep the padding and drop the rest: read from the tape, without a look at values.

The embedding says which number is the padding. A mask is known by its history: a comparison of the same numbers with
the padding, behind calls that only move, convert or negate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.clipping import calls_since
from insitu.capture.tensors import Value
from insitu.trace.step_health import PaddingMask

MOST_MOVES = 20
COMPARISONS = {"eq": True, "ne": False}
NEGATIONS = frozenset({"logical_not", "bitwise_not", "invert", "rsub"})
DROPPING = ("key_padding_mask", "src_key_padding_mask")  # what a module calls a mask that is True where nothing counts


@dataclass(frozen=True, slots=True)
class MaskComparison:
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


@dataclass(frozen=True, slots=True)
class PaddedNumbers:
    """The numbers that an embedding looks up, and the one among them that is the padding."""

    numbers: Value
    padding: int

    def is_compared(self, found: MaskComparison) -> bool:
        """Whether a comparison is one of these numbers with the padding."""
        return found.numbers is self.numbers and found.other == self.padding


def padding_masks(reading: Reading) -> Iterator[PaddingMask]:
    """The masks that keep nothing but the padding, each once."""
    calls = list(calls_since(reading.tape, 0))
    padded = list(filter(None, (padded_numbers(reading, at) for at in calls)))
    if not padded:
        return
    met: set[int] = set()  # a mask is used in each layer
    for at, found in wrong_masks(reading, calls):
        is_padding = any(each.is_compared(found) for each in padded)
        if is_padding and found.at not in met:
            met.add(found.at)
            yield PaddingMask(reading.call(found.at), reading.call(at), int(found.other))


def wrong_masks(reading: Reading, calls: Iterable[int]) -> Iterator[tuple[int, MaskComparison]]:
    """The calls that keep what a comparison finds equal, or drop what it finds different; with the comparison."""
    for at in calls:
        use = mask_use(reading, at)
        if use is None:
            continue
        found = comparison(reading, use.mask)
        if found is not None and found.is_equal != use.drops:
            yield at, found


def padded_numbers(reading: Reading, at: int) -> PaddedNumbers | None:
    """What an embedding looks up; None for other calls, and without a padding."""
    if reading.operation(at).base != "embedding":
        return None
    padding = reading.kwargs(at).get("padding_idx")
    numbers = next(iter(values(reading.args(at)[:1])), None)
    if padding is None or numbers is None:
        return None
    return PaddedNumbers(numbers, padding)


def mask_use(reading: Reading, at: int) -> MaskUse | None:
    """The mask of a call that keeps or drops what requires a gradient; None if the call has none."""
    kwargs = reading.kwargs(at)
    for name in DROPPING:
        if isinstance(kwargs.get(name), Value):
            return MaskUse(kwargs[name], drops=True)
    use = MASK_USES.get(reading.operation(at).base)
    if use is None:
        return None
    return use(reading.args(at))


def product_mask(args: list[Any]) -> MaskUse | None:
    """The factor of a product that requires no gradient, where the other one does."""
    factors = [item for item in args if isinstance(item, Value)]
    masks = [item for item in factors if not item.requires_grad]
    if len(factors) == 2 and len(masks) == 1:
        return MaskUse(masks[0], drops=False)
    return None


def filled_mask(args: list[Any]) -> MaskUse | None:
    """The mask under which a tensor that requires a gradient is filled."""
    tensors = [item for item in args[:2] if isinstance(item, Value)]
    if len(tensors) == 2 and tensors[0].requires_grad:
        return MaskUse(tensors[1], drops=True)
    return None


MASK_USES = {"mul": product_mask, "masked_fill": filled_mask}


def comparison(reading: Reading, mask: Value) -> MaskComparison | None:
    """The comparison that a mask comes from, behind calls that move, convert or negate it."""
    is_negated = False
    value: Value | None = mask
    for _ in range(MOST_MOVES):
        at = reading.producer(value) if value is not None else None
        if at is None:
            return None
        what = reading.operation(at)
        if what.base in COMPARISONS:
            return compared(reading.args(at), at, is_equal=COMPARISONS[what.base] != is_negated)
        is_negation = not NEGATIONS.isdisjoint((what.base, what.name))
        if not is_negation and not what.is_move:
            return None
        value = next(values(reading.args(at)), None)
        is_negated = is_negated != is_negation
    return None


def compared(args: list[Any], at: int, *, is_equal: bool) -> MaskComparison | None:
    """A comparison of numbers with another one; None if both are tensors."""
    is_with_number = len(args) == 2 and isinstance(args[0], Value) and isinstance(args[1], int)
    if is_with_number:
        return MaskComparison(args[0], args[1], is_equal, at)
    return None
