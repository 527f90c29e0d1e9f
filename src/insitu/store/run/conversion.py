"""Converts the values of a run for pandas, torch and NumPy; a package is imported only when it is asked for."""

from __future__ import annotations

import operator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import ChoiceError, MissingError
from insitu.store.stored_type import Array
from insitu.trace.dtype import dtype_named

if TYPE_CHECKING:
    from insitu.store.run.series import Series

EXTRAS = {"dask": "dask", "xarray": "xarray", "pyarrow": "parquet"}  # the extra that installs a package
_DTYPES: dict[type, type[np.generic]] = {float: np.float64, int: np.int64, bool: np.bool_}


def to_pandas(series: Series) -> Any:
    """A DataFrame with the columns step, rank, attempt, call, time and value."""
    pandas = need("pandas", "to_pandas()")
    values: Any = series.values
    if not _is_column(values):
        values = pandas.Series(list(values), dtype=object)
    columns = {"step": series.steps, "rank": series.ranks, "attempt": series.attempts}
    columns |= {"call": series.calls, "time": series.times}
    return pandas.DataFrame({**columns, "value": values})


def _is_column(values: Any) -> bool:
    """Whether pandas takes the values as a column of numbers; kind V is a dtype that NumPy lacks."""
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind != "V"


def to_torch(raw: Array | list[Array], dtype: str) -> Any:
    """Bits as a tensor, or a list of tensors; quantized values as their integers."""
    torch = need("torch", "to_torch()")
    row = dtype_named(dtype)
    name = row.bits if row.kind == "quantized" else dtype
    torch_dtype = getattr(torch, name, None)
    if torch_dtype is None:
        raise ChoiceError(f"torch has no type for {dtype} values: take .values")
    if isinstance(raw, list):
        return [_tensor(bits, torch_dtype) for bits in raw]
    return _tensor(raw, torch_dtype)


def _tensor(bits: Array, dtype: Any) -> Any:
    """A tensor with these bits, copied as bytes: not every torch knows every dtype of NumPy."""
    torch = need("torch", "to_torch()")
    tensor = torch.empty(bits.shape, dtype=dtype)
    if bits.size:
        values = torch.from_numpy(np.frombuffer(bytearray(bits.tobytes()), np.uint8))
        tensor.view(-1).view(torch.uint8).copy_(values)
    return tensor


def need(module: str, verb: str, *, extra: str = "") -> Any:
    """A module of a package that a verb needs; an error that names the extra of insitu that installs it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        name = extra or EXTRAS.get(package, "")
        install = f"'insitu[{name}]'" if name else package
        raise MissingError(f"{verb} needs {package}: pip install {install}") from None


def packed(values: list[Any]) -> Any:
    """Numbers of one type as an array; otherwise the list itself.

    None among floats becomes NaN, unless one of the floats is NaN: the two would look the same.

    >>> packed([0.5, None]), packed([True, False]), packed([1, 2.0]), packed([2**63])
    (array([0.5, nan]), array([ True, False]), [1, 2.0], [9223372036854775808])
    """
    types = set(map(type, values))
    if types == {float, type(None)} and _has_no_nan(values):
        return np.array(values, np.float64)
    if len(types) != 1:
        return values
    dtype = _DTYPES.get(types.pop())
    if dtype is None:
        return values
    try:
        return np.array(values, dtype)
    except OverflowError:  # an integer of more than 64 bits
        return values


def _has_no_nan(values: list[Any]) -> bool:
    """Whether no value is NaN, which is the only one that differs from itself."""
    return all(map(operator.eq, values, values))
