"""The one measure in which all differences can be compared: the difference as a part of the largest number.

The relative error of two tensors a and b is max|a - b| / max(|a|, |b|), over all finite elements. It is between 0 and
2, it is the same for b and a, and it does not depend on the unit of the values.

Where only statistics were kept, max|a - b| is not known. It is at least as large as the difference of the minima, of
the maxima, of the means and of the standard deviations. So the largest of these gives a bound, and the true relative
error is that or more. Where NaN or Inf is in one of the two only, the relative error is infinite.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from insitu.trace.event import NUMBERS, Stats


class RelativeError(NamedTuple):
    """How large a difference is, as a part of the largest number; `is_bound` says that it may be larger.

    >>> RelativeError(0.25) < RelativeError(0.5)
    True
    """

    size: float
    is_bound: bool = False


NO_ERROR = RelativeError(0.0)


def relative_error(apart: float, *sizes: float, is_bound: bool = False) -> RelativeError | None:
    """The relative error of numbers that are so far apart; `sizes` are the largest ones. None if it is not known.

    >>> relative_error(0.5, 2.0, 1.5), relative_error(math.nan, 2.0)
    (RelativeError(size=0.25, is_bound=False), RelativeError(size=inf, is_bound=False))
    """
    if apart == 0.0:
        return RelativeError(0.0, is_bound)
    if not math.isfinite(apart):
        return RelativeError(math.inf)
    largest = max(sizes, default=0.0)
    if not largest > 0.0 or not math.isfinite(largest):
        return None
    return RelativeError(apart / largest, is_bound)


def relative_error_of_arrays(a: Any, b: Any, apart: float) -> RelativeError | None:
    """The relative error of two arrays of floats or complex numbers, whose elements are at most so far apart."""
    return relative_error(apart, _largest(a), _largest(b))


def _largest(array: Any) -> float:
    """The size of the largest finite element."""
    import numpy as np

    sizes = np.abs(array)
    return float(sizes.max(initial=0.0, where=np.isfinite(sizes)))


def relative_error_of_numbers(a: Any, b: Any, apart: float) -> RelativeError | None:
    """The relative error of two numbers of Python."""
    try:
        return relative_error(apart, float(abs(a)), float(abs(b)))
    except OverflowError:  # an integer that no float can hold
        return None


def relative_error_of_statistics(a: Stats, b: Stats) -> RelativeError | None:
    """A bound for the relative error of two tensors with as many elements, as far as their statistics show.

    >>> one, other = Stats(count=4, min=-2.0, max=1.0, mean=0.0), Stats(count=4, min=-2.0, max=1.0, mean=0.5)
    >>> relative_error_of_statistics(one, other)
    RelativeError(size=0.25, is_bound=True)
    """
    if a.count != b.count:
        return None
    if (a.nan, a.inf) != (b.nan, b.inf):
        return RelativeError(math.inf)
    pairs = [(getattr(a, row.name), getattr(b, row.name)) for row in NUMBERS]
    known = [abs(left - right) for left, right in pairs if left is not None and right is not None]
    sizes = [abs(end) for end in (a.min, a.max, b.min, b.max) if end is not None]
    return relative_error(max(known, default=0.0), *sizes, is_bound=True)
