"""The same values in another order: transposed, swapped, shifted, interleaved; or the same values times a number.

All of it is found from kept values. An order is only named if the values of a in that order are those of b, within the
tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal

from insitu.trace.kept_values import Array, real_numbers

ArrangementKind = Literal[
    "transposed", "reshaped", "swapped", "shifted", "reversed", "interleaved", "reordered", "scaled"
]

MOST_ELEMENTS = 1 << 21  # of a tensor whose order is looked at
MOST_DIMENSIONS = 6
SAMPLE = 64  # elements that are compared before all of them are
MOST_SHIFT = 2  # positions
FEWEST = 3  # positions of which at least two stay when they are shifted


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How the values of b are those of a.

    - "transposed": `items` are the two dimensions that are swapped, or the order of all of them.
    - "swapped": along `dimension` the two `items` are swapped; there are `count` items of `size` elements each.
    - "reversed", "reordered" and "interleaved" are other orders of such items. `items` is the order: where each item
      of b is in a. What is interleaved is split into `count` parts, and b takes one item of each in turn.
    - "shifted": b is `offset` positions after a along `dimension`.
    - "reshaped": the same values in the same order, in another shape.
    - "scaled": b is a times `factor`.
    """

    kind: ArrangementKind
    dimension: int = 0
    items: tuple[int, ...] = ()
    count: int = 0
    size: int = 1
    offset: int = 0
    factor: float = 1.0


def arrangement(a: Array, b: Array, rtol: float, atol: float) -> Arrangement | None:
    """How the values of b are those of a in another order; None if they are not, or are in the same order.

    >>> import numpy
    >>> table = numpy.arange(12.0).reshape(3, 4)
    >>> arrangement(table, table.T, 0.0, 0.0)
    Arrangement(kind='transposed', dimension=0, items=(0, 1), count=0, size=1, offset=0, factor=1.0)
    >>> found = arrangement(table, table[:, [2, 3, 0, 1]], 0.0, 0.0)
    >>> found.kind, found.dimension, found.items, found.count, found.size
    ('swapped', 1, (0, 1), 2, 2)
    """
    left, right = _finite_numbers(a), _finite_numbers(b)
    if left is None or right is None:
        return None
    is_close = _Closeness(rtol, atol)
    if left.shape == right.shape and is_close(left, right):
        return None
    if not _has_same_values(left, right, is_close):
        return _shift(left, right, is_close) or _factor(left, right, is_close)
    for found in _orders(left, right, is_close):
        return found
    return None


def _finite_numbers(array: Array) -> Array | None:
    """The array as numbers of 64 bits; None if it is too large, too small or holds NaN or Inf."""
    import numpy as np

    if not 1 < array.size <= MOST_ELEMENTS:
        return None
    numbers = real_numbers(array)
    if numbers is None:
        return None
    wide = numbers.astype(np.float64)
    if not np.isfinite(wide).all() or wide.min() == wide.max():
        return None
    return wide


class _Closeness:
    """Whether arrays of one shape are equal within the tolerance."""

    def __init__(self, rtol: float, atol: float) -> None:
        self._rtol, self._atol = rtol, atol

    def __call__(self, a: Array, b: Array) -> bool:
        import numpy as np

        return a.shape == b.shape and bool(np.allclose(a, b, rtol=self._rtol, atol=self._atol))


def _has_same_values(a: Array, b: Array, is_close: _Closeness) -> bool:
    """Whether two arrays hold the same values, in whatever order."""
    import numpy as np

    return a.size == b.size and is_close(np.sort(a, axis=None), np.sort(b, axis=None))


def _orders(a: Array, b: Array, is_close: _Closeness) -> Iterator[Arrangement]:
    """The orders in which the values of a are those of b, the simplest first."""
    if a.shape == b.shape:
        for dimension in range(a.ndim):
            order = _order(a, b, dimension)
            if order is not None and is_close(a.take(order, dimension), b):
                yield _named_order(order.tolist(), dimension)
    yield from _transpositions(a, b, is_close)
    if a.shape != b.shape and is_close(a.reshape(-1), b.reshape(-1)):
        yield Arrangement("reshaped")


def _transpositions(a: Array, b: Array, is_close: _Closeness) -> Iterator[Arrangement]:
    """The orders of dimensions in which a is b; those that swap two of them first."""
    import numpy as np

    if a.ndim != b.ndim or not 1 < a.ndim <= MOST_DIMENSIONS:
        return
    random = np.random.default_rng(0)
    sample = tuple([random.integers(0, size, SAMPLE) for size in b.shape])
    for axes in _other_axes(a.ndim):
        turned = a.transpose(axes)
        if turned.shape == b.shape and is_close(turned[sample], b[sample]) and is_close(turned, b):
            yield _transposition(axes)


def _other_axes(count: int) -> list[tuple[int, ...]]:
    """All other orders of dimensions; those that move the fewest first."""
    return sorted(permutations(range(count)), key=lambda axes: len(_moved(axes)))[1:]


def _transposition(axes: tuple[int, ...]) -> Arrangement:
    moved = _moved(axes)
    if len(moved) == 2:
        return Arrangement("transposed", items=moved)
    return Arrangement("transposed", items=axes)


def _moved(order: tuple[int, ...]) -> tuple[int, ...]:
    """The places that hold another item than their own."""
    return tuple([place for place, item in enumerate(order) if place != item])


def _order(a: Array, b: Array, dimension: int) -> Array | None:
    """The order of the slices of a along a dimension that may be that of b: by one number for each slice."""
    import numpy as np

    count = a.shape[dimension]
    if count < 2:
        return None
    rest = a.size // count
    weights = np.random.default_rng(0).standard_normal(rest)
    keys_a = np.moveaxis(a, dimension, 0).reshape(count, rest) @ weights
    keys_b = np.moveaxis(b, dimension, 0).reshape(count, rest) @ weights
    order = np.empty(count, dtype=np.int64)
    order[np.argsort(keys_b, kind="stable")] = np.argsort(keys_a, kind="stable")
    return order


def _named_order(order: list[int], dimension: int) -> Arrangement:
    """The name of an order of slices: of blocks of them, as large as possible."""
    size = next(size for size in _divisors(len(order)) if _is_blockwise(order, size))
    blocks = tuple([start // size for start in order[::size]])
    plain = Arrangement("reordered", dimension, blocks, len(blocks), size)
    names = (_swap(plain), _reversal(plain), _roll(plain), _interleaving(plain))
    return next(filter(None, names), plain)


def _divisors(number: int) -> list[int]:
    """The divisors of a number but for itself, the largest first."""
    return [size for size in range(number // 2, 0, -1) if number % size == 0]


def _swap(order: Arrangement) -> Arrangement | None:
    moved = _moved(order.items)
    if len(moved) == 2:
        return replace(order, kind="swapped", items=moved)
    return None


def _reversal(order: Arrangement) -> Arrangement | None:
    if order.items == tuple(reversed(range(order.count))):
        return replace(order, kind="reversed")
    return None


def _roll(order: Arrangement) -> Arrangement | None:
    count, offset = order.count, order.items.index(0)
    items = range(count)
    if order.items != (*items[count - offset :], *items[: count - offset]):
        return None
    if offset > count // 2:
        offset -= count
    return replace(order, kind="shifted", offset=offset * order.size)


def _interleaving(order: Arrangement) -> Arrangement | None:
    for parts in _divisors(order.count)[:-1]:
        if order.items == _interleaved(order.count, parts):
            return replace(order, kind="interleaved", count=parts)
    return None


def _is_blockwise(order: list[int], size: int) -> bool:
    """Whether an order moves whole blocks of this size."""
    for start in range(0, len(order), size):
        first = order[start]
        if first % size or order[start : start + size] != list(range(first, first + size)):
            return False
    return True


def _interleaved(count: int, parts: int) -> tuple[int, ...]:
    """The order that takes one item of each part in turn.

    >>> _interleaved(6, 2)
    (0, 3, 1, 4, 2, 5)
    """
    size = count // parts
    return tuple([part * size + place for place in range(size) for part in range(parts)])


def _shift(a: Array, b: Array, is_close: _Closeness) -> Arrangement | None:
    """Along which dimension b is later or earlier than a, if it is; what is at the ends may be anything."""
    if a.shape != b.shape:
        return None
    for dimension in range(a.ndim):
        length = a.shape[dimension]
        for offset in range(1, MOST_SHIFT + 1):
            if length - offset < FEWEST - 1:
                continue
            for sign, early, late in ((1, a, b), (-1, b, a)):
                part = early.take(range(length - offset), dimension)
                if part.min() != part.max() and is_close(part, late.take(range(offset, length), dimension)):
                    return Arrangement("shifted", dimension, offset=sign * offset)
    return None


def _factor(a: Array, b: Array, is_close: _Closeness) -> Arrangement | None:
    """The number by which a is to be multiplied to be b."""
    import numpy as np

    if a.shape != b.shape:
        return None
    largest = np.unravel_index(np.abs(a).argmax(), a.shape)
    factor = float(b[largest] / a[largest])
    if factor in (0.0, 1.0) or not math.isfinite(factor):
        return None
    if is_close(a * factor, b):
        return Arrangement("scaled", factor=factor)
    return None
