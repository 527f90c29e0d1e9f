"""Statistics of a whole tensor from the statistics of its parts.

Each element is in one part, or in equally many: then the extremes and averages over all parts are those of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from insitu.trace.event import Stats


def combined_stats(parts: Sequence[Stats], count: int) -> Stats | None:
    """The statistics of a tensor of `count` elements; None if the parts do not make up so many elements.

    >>> one = Stats(count=2, min=0.0, max=2.0, mean=1.0, std=1.0)
    >>> other = Stats(count=2, min=4.0, max=4.0, mean=4.0, std=0.0)
    >>> whole = combined_stats([one, other], 4)
    >>> whole.min, whole.max, whole.mean, round(whole.std, 4)
    (0.0, 4.0, 2.5, 1.6583)
    """
    times = times_held([part.count for part in parts], count)
    if not times:
        return None
    counts = {name: sum(getattr(part, name) for part in parts) // times for name in ("nan", "inf", "zeros")}
    finite = [part for part in parts if part.mean is not None]
    if not finite:
        return Stats(count=count, **counts)
    weights = [float(part.count - part.nan - part.inf) for part in finite]
    means = [part.mean or 0.0 for part in finite]
    return Stats(
        count=count,
        min=min(part.min for part in finite if part.min is not None),
        max=max(part.max for part in finite if part.max is not None),
        mean=weighted(means, weights),
        std=spread([part.std or 0.0 for part in finite], means, weights),
        **counts,
    )


def times_held(counts: Sequence[int], whole: int) -> int:
    """In how many parts each element is; 0 if the counts of elements do not fit."""
    total = sum(counts)
    if whole <= 0 or total % whole:
        return 0
    return total // whole


def weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    """The mean of all elements, from the means of the parts."""
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


def spread(stds: Sequence[float], means: Sequence[float], weights: Sequence[float]) -> float:
    """The standard deviation of all elements, from those of the parts."""
    centre = weighted(means, weights)
    squares = [std**2 + (mean - centre) ** 2 for std, mean in zip(stds, means, strict=True)]
    return sqrt(weighted(squares, weights))
