"""Arrays small enough to be looked at: planes of cells, each cell one value or a block of values, as bytes.

The last two dimensions of an array are the rows and columns of a plane; the dimensions before them number the planes.
A plane that is too large is reduced: a cell stands for a block of values, and shows the one that is farthest from zero,
because a mean would hide extremes. A block with a NaN shows NaN. A row of numbers that is too long keeps the least and
the largest number of each block. Of too many planes, the first indices of the outermost dimensions stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from insitu.trace.kept_values import MOST_EXACT, Array

# What a cell shows of its block: its only value, the one farthest from zero, the mean; or two cells, least and largest.
Pooling = Literal["value", "farthest", "mean", "range"]
# How a cell is written: as one of 253 levels, or as a float of 16 or 32 bits of which `scale` is one.
Form = Literal["levels", "half", "single"]
FORM_BYTES: dict[Form, int] = {"levels": 1, "half": 2, "single": 4}

LEVELS = 252  # steps from the lowest level to the highest
MINUS_INF, PLUS_INF, NAN = 253, 254, 255  # the codes after the levels
MOST_ROW = 512  # cells of a row of numbers, times two if they are ranges
MOST_PLANES = 256
LEAST_SIDE = 8  # cells, to which a plane is reduced so that there can be more of them
CHANNELS = 3
LEAST_IMAGE = 16  # pixels of a side from which on three channels look like an image


@dataclass(frozen=True)
class PlaneLayout:
    """How an array becomes planes: the shape of the array, how many indices stay of each leading dimension, the rows
    and columns of a plane, and how many values a cell stands for in either direction."""

    shape: tuple[int, ...]
    leading: tuple[int, ...]
    rows: int
    columns: int
    block_rows: int
    block_columns: int
    pooling: Pooling

    @property
    def cells(self) -> int:
        """The cells of all planes."""
        return math.prod(self.leading) * self.rows * self.columns


@dataclass(frozen=True)
class Planes:
    """The cells of an array as bytes, in the order of the layout, and what they mean.

    A cell of the form "levels" is `low + step * code`; one of another form is `scale` times the float. `is_exact` says
    that each value can be read back without rounding.
    """

    layout: PlaneLayout
    form: Form
    data: bytes
    is_exact: bool
    low: float = 0.0
    step: float = 0.0
    scale: float = 1.0


def plane_layout(
    shape: tuple[int, ...], *, most_side: int, most_cells: int, pooling: Pooling = "farthest"
) -> PlaneLayout:
    """The layout of an array of this shape, with at most so many cells in a row or column, and in all planes.

    >>> layout = plane_layout((2, 6, 500, 24), most_side=256, most_cells=100_000)
    >>> layout.leading, layout.rows, layout.columns, layout.block_rows
    ((2, 6), 250, 24, 2)
    """
    if len(shape) < 2:
        return _row_layout(shape)
    leading = _leading(shape[:-2])
    side = min(most_side, _side(shape[-2:], most_cells // max(1, math.prod(leading))))
    block_rows, block_columns = (max(1, math.ceil(size / side)) for size in shape[-2:])
    is_whole = block_rows == block_columns == 1
    rows, columns = math.ceil(shape[-2] / block_rows), math.ceil(shape[-1] / block_columns)
    return PlaneLayout(
        shape, leading, rows, columns, block_rows, block_columns, pooling="value" if is_whole else pooling
    )


def _side(sizes: tuple[int, ...], room: int) -> int:
    """The most cells that a side of a plane can have, if the plane has room for so many."""
    side = math.isqrt(room)
    if min(sizes) < side:
        side = room // max(1, min(sizes))
    return max(LEAST_SIDE, side)


def _row_layout(shape: tuple[int, ...]) -> PlaneLayout:
    """The layout of a row of numbers, or of a single one."""
    length = math.prod(shape)
    if length <= MOST_ROW:
        return PlaneLayout(shape, (), 1, length, 1, 1, "value")
    block = math.ceil(length / MOST_ROW)
    return PlaneLayout(shape, (), 2, math.ceil(length / block), 1, block, "range")


def _leading(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """How many indices stay of each leading dimension: all of the innermost ones, as long as there are not too many."""
    room = MOST_PLANES
    found: list[int] = []
    for size in reversed(sizes):
        found.append(min(size, max(1, room)))
        room //= max(1, size)
    return tuple(reversed(found))


def is_image(numbers: Array) -> bool:
    """Whether an array looks like images, with the channels before rows and columns: bytes, or floats from 0 to 1."""
    if numbers.ndim < 3 or numbers.size == 0:
        return False
    if numbers.shape[-3] != CHANNELS or min(numbers.shape[-2:]) < LEAST_IMAGE:
        return False
    if numbers.dtype.kind == "f":
        return bool(numbers.min() >= 0 and 0 < numbers.max() <= 1)
    return str(numbers.dtype) == "uint8"


def planes(numbers: Array, layout: PlaneLayout, form: Form) -> Planes:
    """The planes of an array of real numbers (`real_numbers` of kept_values.py).

    >>> import numpy
    >>> found = planes(numpy.array([[1, 3]]), plane_layout((1, 2), most_side=8, most_cells=64), "single")
    >>> found.form, found.low, found.step, list(found.data)
    ('levels', 1.0, 1.0, [0, 2])
    """
    import numpy as np

    with np.errstate(all="ignore"):
        cells = _pooled(numbers, layout)
        if cells.dtype.kind != "f" and _fits_levels(cells):
            return _exact_levels(cells, layout)
        floats = cells.astype(np.float64)
        if form == "levels":
            return _levels(floats, layout)
        return _floats(floats, layout, form)


def _pooled(numbers: Array, layout: PlaneLayout) -> Array:
    """The cells of all planes as an array of three dimensions."""
    import numpy as np

    if len(layout.shape) < 2:
        return _pooled_row(numbers.reshape(-1), layout)
    inside = tuple(slice(0, size) for size in layout.leading)
    stack = numbers[inside].reshape(math.prod(layout.leading), *layout.shape[-2:])
    if layout.pooling == "value":
        return stack
    rows = np.arange(0, layout.shape[-2], layout.block_rows)
    columns = np.arange(0, layout.shape[-1], layout.block_columns)

    def pool(function: Any, array: Array) -> Array:
        return function.reduceat(function.reduceat(array, rows, axis=1), columns, axis=2)

    if layout.pooling == "mean":
        stack = stack.astype(np.float64)
        return pool(np.add, stack) / pool(np.add, np.ones_like(stack[:1]))
    least, largest = pool(np.minimum, stack), pool(np.maximum, stack)
    if stack.dtype.kind in "bu":
        return largest
    return np.where(np.abs(least.astype(np.float64)) > np.abs(largest.astype(np.float64)), least, largest)


def _pooled_row(numbers: Array, layout: PlaneLayout) -> Array:
    import numpy as np

    if layout.pooling == "value":
        return numbers.reshape(1, 1, -1)
    starts = np.arange(0, numbers.size, layout.block_columns)
    ends = [np.minimum.reduceat(numbers, starts), np.maximum.reduceat(numbers, starts)]
    return np.stack(ends).reshape(1, 2, -1)


def _fits_levels(cells: Array) -> bool:
    """Whether each integer of some cells has a level of its own."""
    return cells.size > 0 and int(cells.max()) - int(cells.min()) <= LEVELS


def _exact_levels(cells: Array, layout: PlaneLayout) -> Planes:
    import numpy as np

    if cells.dtype.itemsize == 1:  # whose differences need not fit into a byte with a sign
        cells = cells.astype(np.int16)
    low = int(cells.min())
    codes = (cells - cells.min()).astype(np.uint8)
    return Planes(layout, "levels", codes.tobytes(), abs(low) < MOST_EXACT, low=float(low), step=1.0)


def _levels(cells: Array, layout: PlaneLayout) -> Planes:
    import numpy as np

    is_finite = np.isfinite(cells)
    finite = cells[is_finite]
    low, high = float(finite.min(initial=math.inf)), float(finite.max(initial=-math.inf))
    codes = np.zeros(cells.shape, np.uint8)
    half_step = (high / 2 - low / 2) / LEVELS  # halves: the whole may be too large for a float
    if half_step > 0:
        codes[is_finite] = np.rint((finite / 2 - low / 2) / half_step).clip(0, LEVELS).astype(np.uint8)
    codes[np.isnan(cells)] = NAN
    codes[cells == math.inf] = PLUS_INF
    codes[cells == -math.inf] = MINUS_INF
    if not finite.size:
        return Planes(layout, "levels", codes.tobytes(), is_exact=True)
    return Planes(layout, "levels", codes.tobytes(), low == high, low=low, step=max(0.0, 2 * half_step))


def _floats(cells: Array, layout: PlaneLayout, form: Form) -> Planes:
    """The cells as floats; the scale is a power of two, so that no digit is lost to it and no number overflows."""
    import numpy as np

    sizes = np.abs(cells[np.isfinite(cells)])
    largest = float(sizes.max(initial=0.0))
    scale = 1.0
    if largest:
        scale = 2.0 ** max(-1021, math.frexp(largest)[1] - 15)
    stored = (cells / scale).astype({"half": "<f2", "single": "<f4"}[form])
    is_exact = bool(np.array_equal(stored.astype(np.float64) * scale, cells, equal_nan=True))
    return Planes(layout, form, stored.tobytes(), is_exact, scale=scale)
