"""The values of a tensor that a trace has kept: as arrays of plain numbers, and as statistics.

With `keep="values"` a trace has arrays and no statistics. Whoever needs statistics asks `statistics_of`, which computes
them from the values. NumPy is imported when there is an array, and not before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from insitu.trace.event import Stats, TensorFacts

BINS = 16
MOST_EXACT = 2**53  # of the integers that a float holds exactly
MOST_DEPTH = 4  # containers in each other that are searched for arrays
MOST_ARRAYS = 8  # that are taken from one container

Array = Any  # an array of NumPy, which is not imported here


class NamedArray(NamedTuple):
    """An array in what was kept of a tensor, and where it is: "" for the whole, `0`, `mean.1` for an item."""

    name: str
    array: Array


def is_array(item: Any) -> bool:
    """Whether something is an array of NumPy."""
    return hasattr(item, "astype")


def has_numbers(array: Array) -> bool:
    """Whether the elements of an array are numbers: not objects, texts, dates or records."""
    return array.dtype.kind not in "OSUmM" and not array.dtype.names


def has_all_values(facts: TensorFacts) -> bool:
    """Whether what was kept of a tensor are its values: an array of its shape, or the number in it."""
    if is_array(facts.kept):
        return bool(facts.kept.shape == facts.shape)
    return facts.shape == () and is_number(facts.kept)


def is_number(item: Any) -> bool:
    """Whether something is a number of Python, and not a bool."""
    return isinstance(item, (int, float, complex)) and not isinstance(item, bool)


def kept_arrays(item: Any) -> list[NamedArray]:
    """The arrays in what was kept of a tensor: itself, or items of a list or a dict, of many the first ones.

    >>> import numpy
    >>> [found.name for found in kept_arrays({"a": numpy.ones(2), "b": [1.5, numpy.ones(3)]})]
    ['a', 'b.1']
    """
    found: list[NamedArray] = []
    for named in _arrays_in(item, "", 0):
        found.append(named)
        if len(found) == MOST_ARRAYS:
            break
    return found


def _arrays_in(item: Any, name: str, depth: int) -> Iterator[NamedArray]:
    if is_array(item):
        yield NamedArray(name, item)
        return
    if depth == MOST_DEPTH:
        return
    for key, part in _items(item):
        path = f"{name}.{key}" if name else f"{key}"
        yield from _arrays_in(part, path, depth + 1)


def _items(item: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(item, dict):
        yield from item.items()
    elif isinstance(item, (list, tuple)):
        yield from enumerate(item)


def real_numbers(array: Array) -> Array | None:
    """An array as real numbers that NumPy computes with, complex ones by their size; None if it has no numbers.

    >>> import numpy
    >>> real_numbers(numpy.array([3 + 4j])).tolist(), real_numbers(numpy.array(["text"]))
    ([5.0], None)
    """
    import numpy as np

    try:
        if not has_numbers(array):
            return None
        if array.dtype.kind == "c":
            return np.abs(array)
        if array.dtype.kind in "biuf" and array.dtype.isnative:
            return np.asarray(array)
        if array.dtype.kind in "biuf":
            return np.asarray(array, dtype=array.dtype.newbyteorder("="))
        return np.asarray(array).astype(np.float32)  # types of ml_dtypes
    except Exception:  # what a user's function kept may look like an array and be anything
        return None


def difference_of(a: Array, b: Array) -> Array | None:
    """The numbers of a minus those of b, complex ones by the size of that; None if these are not numbers.

    Two numbers that are equal differ by 0, even if both are NaN or Inf.

    >>> import numpy
    >>> difference_of(numpy.array([3.0, numpy.nan]), numpy.array([1.0, numpy.nan])).tolist()
    [2.0, 0.0]
    """
    import numpy as np

    with np.errstate(all="ignore"):
        have_numbers = has_numbers(a) and has_numbers(b)
        if have_numbers and "c" in (a.dtype.kind, b.dtype.kind):
            return _apart(a.astype(np.complex128), b.astype(np.complex128), np.abs)
        left, right = real_numbers(a), real_numbers(b)
        if left is None or right is None:
            return None
        wide: Any = np.float64
        if max(_largest_integer(left), _largest_integer(right)) > MOST_EXACT:
            wide = object
        return _apart(left.astype(wide), right.astype(wide), np.float64)


def _apart(a: Array, b: Array, convert: Callable[[Array], Array]) -> Array:
    import numpy as np

    is_equal = (a == b) | ((a != a) & (b != b))
    return np.where(is_equal, 0.0, convert(a - b))


def _largest_integer(numbers: Array) -> int:
    """The size of the largest integer; 0 for other numbers."""
    if numbers.dtype.kind not in "iu" or not numbers.size:
        return 0
    return max(abs(int(numbers.min())), abs(int(numbers.max())))


def statistics_of(facts: TensorFacts) -> Stats | None:
    """The statistics of a tensor: those of the trace, or those of the values that the trace has kept."""
    if facts.stats is not None:
        return facts.stats
    if facts.kept is None or not has_all_values(facts):
        return None
    return statistics_of_values(facts.kept)


def with_statistics(facts: TensorFacts) -> TensorFacts:
    """A tensor with the statistics of its kept values, for whoever reads `stats`; the same tensor if it has some."""
    if facts.stats is not None or facts.kept is None:
        return facts
    return replace(facts, stats=statistics_of(facts))


def statistics_of_values(values: Any) -> Stats | None:
    """The statistics of an array or a number; None if these are not numbers.

    >>> statistics_of_values(2.0).mean
    2.0
    """
    import numpy as np

    numbers = real_numbers(np.asarray(values))
    if numbers is None:
        return None
    if numbers.dtype.kind != "f" or numbers.dtype.itemsize < 4:
        numbers = numbers.astype(np.float64)
    with np.errstate(all="ignore"):
        return _statistics(numbers.reshape(-1))


def _statistics(values: Array) -> Stats:
    """The statistics of a row of floats."""
    import numpy as np

    count = int(values.size)
    is_finite = np.isfinite(values)
    nan = inf = 0
    if not is_finite.all():
        nan = int(np.isnan(values).sum())
        inf = int(np.isinf(values).sum())
        values = values[is_finite]
    zeros = int(values.size - np.count_nonzero(values))
    if values.size == 0:
        return Stats(count=count, nan=nan, inf=inf)
    low, high = float(values.min()), float(values.max())
    mean, std = _moments(values, max(abs(low), abs(high)))
    return Stats(
        count=count,
        min=low,
        max=high,
        mean=mean,
        std=std,
        nan=nan,
        inf=inf,
        zeros=zeros,
        histogram=_histogram(values, low, high),
    )


def _moments(values: Array, largest: float) -> tuple[float, float]:
    """Mean and standard deviation, computed from parts of the largest value so that no square overflows."""
    import numpy as np

    if largest == 0.0:
        return 0.0, 0.0
    parts = values.astype(np.float64) / largest
    return float(parts.mean()) * largest, float(parts.std()) * largest


def _histogram(values: Array, low: float, high: float) -> tuple[int, ...]:
    """Counts in equal bins; if all values are equal, all are in the first bin."""
    import numpy as np

    has_width = low < high and math.isfinite(high - low)
    if not has_width:
        return (int(values.size), *[0] * (BINS - 1))
    places = (values.astype(np.float64) - low) / (high - low) * BINS
    bins = np.minimum(places.astype(np.int64), BINS - 1)
    return tuple(map(int, np.bincount(bins, minlength=BINS)))
