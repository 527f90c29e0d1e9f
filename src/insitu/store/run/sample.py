"""A sample of a series: of a recorded variable that is too large to be read at once, the values of some steps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from insitu.store.stored_type import stored_type

if TYPE_CHECKING:
    from insitu.store.run.series import Series

MOST_BYTES = 2**26  # read to show a run, or a variable of it


def largest_value(series: Series) -> int:
    """The number of bytes of the largest value."""
    return stored_type(series.dtype).itemsize * max(map(prod, series.shapes), default=0)


def sample(series: Series, points: int, budget: int) -> Series:
    """The whole series if it fits into a number of bytes, otherwise the values of some steps at even distances."""
    most = max(budget // max(largest_value(series), 1), 1)
    if len(series) <= most:
        return series
    steps = np.unique(series.steps)
    wanted = steps[np.linspace(0, len(steps) - 1, min(len(steps), max(2, min(points, most)))).astype(int)]
    keep = np.isin(series.steps, wanted)
    keep &= np.cumsum(keep) <= max(most, 2)
    return series.where(keep)
