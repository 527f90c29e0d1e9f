"""Statistics of a whole tensor from the statistics of its parts.

Each element is in one part, or in equally many: then the extremes and averages over all parts are those of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from insitu.trace.event import Stats


def combined_stats(parts: Sequence[Stats], count: int) -> Stats | None:
    """The statistics of a tensor of `count` elements; None if the parts do not make up so many elements.

    >>> one = Stats(count=2, min=0.0, max=2.0, mean=1.0, std=1.0)
    >>> other = Stats(count=2, min=4.0, max=4.0, mean=4.0, std=0.0)
    >>> whole = combined_stats([one, other], 4)
    >>> whole.min, whole.max, whole.mean, round(whole.std, 4)
    (0.0, 4.0, 2.5, 1.6583)
    """
    times = _times_held(int(_column(parts, "count").sum()), count)
    if times == 0:
        return None
    counts: dict[str, Any] = {name: int(_column(parts, name).sum()) // times for name in ("nan", "inf", "zeros")}
    finite = list(filter(_has_finite_elements, parts))
    if not finite:
        return Stats(count=count, **counts)
    mean, std = _moments(finite)
    low, high = _column(finite, "min").min(), _column(finite, "max").max()
    return Stats(count=count, min=float(low), max=float(high), mean=mean, std=std, **counts)


def _times_held(total: int, count: int) -> int:
    """In how many parts each element is; 0 if the numbers of elements do not fit."""
    if count <= 0:
        return 0
    times, rest = divmod(total, count)
    if rest:
        return 0
    return times


def _has_finite_elements(stats: Stats) -> bool:
    return stats.mean is not None


def _moments(parts: Sequence[Stats]) -> tuple[float, float]:
    """The mean and the standard deviation of all finite elements."""
    weights = _column(parts, "count") - _column(parts, "nan") - _column(parts, "inf")
    means, stds = _column(parts, "mean"), _column(parts, "std")
    mean = np.average(means, weights=weights)
    variance = np.average(stds**2 + (means - mean) ** 2, weights=weights)
    return float(mean), sqrt(variance)


def _column(parts: Sequence[Stats], name: str) -> Any:
    """One number of each part."""
    return np.array([getattr(part, name) for part in parts], np.float64)
