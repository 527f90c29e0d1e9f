"""The types of HDF5 that hold each type of values: what plain h5py reads is true wherever HDF5 has such a type."""

from __future__ import annotations

from typing import Any

import numpy as np
from h5py import h5t, string_dtype

from insitu.store.dtypes import Kind

# Sign, exponent and mantissa of floats that HDF5 can describe; e4m3fn and the like have no infinity, so it cannot.
_FLOATS = {"bfloat16": (2, 15, 7, 8, 7, 127), "float8_e5m2": (1, 7, 2, 5, 2, 15)}


def h5type_of(kind: Kind) -> Any:
    """The type of a dataset with values of this kind."""
    if kind.name in _FLOATS:
        return _float(*_FLOATS[kind.name])
    return numpy_type(kind.bits)


def numpy_type(dtype: np.dtype[Any]) -> Any:
    """The type of a dataset that h5py reads as this type of NumPy."""
    return h5t.py_create(dtype, logical=True)


def text_type(width: int) -> Any:
    """The type of texts of at most so many bytes."""
    return h5t.py_create(string_dtype("utf-8", max(width, 1)), logical=True)


def _float(size: int, sign: int, exponent_at: int, exponent: int, mantissa: int, bias: int) -> Any:
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(sign, exponent_at, exponent, 0, mantissa)
    made.set_precision(8 * size)
    made.set_size(size)
    made.set_ebias(bias)
    return made
