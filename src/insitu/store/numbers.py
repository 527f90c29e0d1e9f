"""Python numbers as an array, where that loses nothing."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

_DTYPES: dict[type, type[np.generic]] = {float: np.float64, int: np.int64, bool: np.bool_}


def packed(values: list[Any]) -> Any:
    """Numbers of one type as an array; else the list as it is.

    None among floats is NaN, unless one of them is NaN already: nobody could tell the two apart.

    >>> packed([0.5, None]), packed([True, False]), packed([1, 2.0]), packed([2**63])
    (array([0.5, nan]), array([ True, False]), [1, 2.0], [9223372036854775808])
    """
    types = set(map(type, values))
    if types == {float, type(None)} and all(value == value for value in values):
        return np.array([nan if value is None else value for value in values])
    dtype = _DTYPES.get(types.pop()) if len(types) == 1 else None
    try:
        return values if dtype is None else np.array(values, dtype)
    except OverflowError:  # an integer of more than 64 bits
        return values
