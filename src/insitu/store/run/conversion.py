"""Values of a run for other packages, each imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import ChoiceError, MissingError
from insitu.store.stored_type import Array
from insitu.trace.dtype import dtype_named

if TYPE_CHECKING:
    from insitu.store.run.series import Series

_DTYPES: dict[type, type[np.generic]] = {float: np.float64, int: np.int64, bool: np.bool_}


def to_pandas(series: Series) -> Any:
    """A DataFrame with the columns step, rank, attempt, call, time and value."""
    pandas = _needed("pandas")
    values: Any = series.values
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind == "V":
        values = pandas.Series(list(values), dtype=object)
    columns = {"step": series.steps, "rank": series.ranks, "attempt": series.attempts}
    columns |= {"call": series.calls, "time": series.times}
    return pandas.DataFrame({**columns, "value": values})


def to_torch(raw: Array | list[Array], dtype: str) -> Any:
    """Bits as a tensor, or a list of tensors; quantized values as the integers that stand for them."""
    torch = _needed("torch")
    row = dtype_named(dtype)
    found = getattr(torch, row.bits if row.kind == "quantized" else dtype, None)
    if found is None:
        raise ChoiceError(f"torch has no type for {dtype} values: take .values")

    def tensor(bits: Array) -> Any:
        made = torch.empty(bits.shape, dtype=found)
        if bits.size:  # as bytes: not every torch knows every array of NumPy
            made.view(-1).view(torch.uint8).copy_(torch.from_numpy(np.frombuffer(bytearray(bits.tobytes()), np.uint8)))
        return made

    if isinstance(raw, list):
        return [tensor(bits) for bits in raw]
    return tensor(raw)


def _needed(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise MissingError(f"to_{package}() needs {package}: pip install {package}") from None


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
        if dtype is None:
            return values
        return np.array(values, dtype)
    except OverflowError:  # an integer of more than 64 bits
        return values
