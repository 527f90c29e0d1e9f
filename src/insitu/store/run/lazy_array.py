"""A series as a Dask array: nothing is read until Dask computes it, and every chunk is read where it is.

Another process, such as a worker on another machine, gets the name of the run instead of its open files, and loads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import ChoiceError, StoreError
from insitu.store.run.conversion import need
from insitu.store.stored_type import JSON, Array

if TYPE_CHECKING:
    from insitu.store.run.run_home import RunHome
    from insitu.store.run.series import Series

CHUNK = 2**26  # bytes of a chunk
_FEWEST_BYTES = 8  # of a Python number, as a float


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """Some rows of a series, the places of these rows in an array, and the shape of that array.

    Without `places` the rows are the array. Places without a row are NaN.
    """

    rows: Array
    shape: tuple[int, ...]
    places: Array | None = None


class SeriesChunk:
    """Reads a part of a series when Dask asks for it."""

    def __init__(self, series: Series, plan: ChunkPlan) -> None:
        self._series, self._plan = series, plan

    def __call__(self) -> Array:
        """The values."""
        plan = self._plan
        values = _array(self._series.take(plan.rows))
        if plan.places is None:
            return values
        inner = values.shape[1:]
        is_full = len(plan.places) == prod(plan.shape[: len(plan.shape) - len(inner)])
        table = np.empty(plan.shape, values.dtype) if is_full else np.full(plan.shape, nan, values.dtype)
        table.reshape(-1, *inner)[plan.places] = values
        return table

    def __reduce__(self) -> tuple[Callable[..., SeriesChunk], tuple[Any, ...]]:
        if len(self._series._parts) != 1:
            raise StoreError(f"{self._series.name!r} joins several runs: another process cannot read it")
        ((variable, rows),) = self._series._parts
        if variable.home is None:
            raise StoreError(f"{variable.name!r} cannot be read by another process: its run has no file")
        total = len(variable.columns().steps)
        return _reopened, (variable.home, variable.name, total, replace(self._plan, rows=rows[self._plan.rows]))


def _reopened(home: RunHome, name: str, total: int, plan: ChunkPlan) -> SeriesChunk:
    """A chunk in another process."""
    series = home.load()[name]
    if len(series) != total:
        raise StoreError(f"{home.origin!r} has grown since the array was made: load it again")
    return SeriesChunk(series, plan)


def _array(series: Series) -> Array:
    """The values as one array; Python numbers as floats."""
    if series.dtype != JSON:
        values: Array = series.values
        return values
    return np.array([_number(series.name, value) for value in series], np.float64)


def _number(name: str, value: Any) -> float:
    if value is None:
        return nan
    if isinstance(value, (int, float)):
        return float(value)
    raise ChoiceError(f"{name!r} holds {value!r:.40}, which is not a number: iterate over the series")


def dtype_of(series: Series) -> np.dtype[Any]:
    """The dtype of the array of a series; an error if its values are not one array."""
    if series.dtype == JSON:
        return np.dtype(np.float64)
    if series.shape is None:
        raise ChoiceError(f"{series.name!r} has values of several shapes, which are not one array: iterate over it")
    empty: Array = series.where(np.zeros(len(series), bool)).values
    found: np.dtype[Any] = empty.dtype
    return found


def value_shape(series: Series) -> tuple[int, ...]:
    """The shape of each value; that of a Python number is ()."""
    if series.dtype == JSON:
        return ()
    return series.shape or ()


def rows_in_chunk(series: Series) -> int:
    """How many values a chunk has."""
    size = max(dtype_of(series).itemsize * prod(value_shape(series)), _FEWEST_BYTES)
    return max(1, CHUNK // size)


def to_dask(series: Series) -> Any:
    """The values as a lazy array (N, *shape), in the order of `series.steps` and `series.ranks`."""
    need("dask", "to_dask()")
    dtype, shape, count = dtype_of(series), value_shape(series), rows_in_chunk(series)
    chunks = []
    for start in range(0, len(series), count):
        rows = np.arange(start, min(start + count, len(series)))
        chunks.append(dask_chunk(series, ChunkPlan(rows, (len(rows), *shape)), dtype))
    return joined_chunks(chunks, (0, *shape), dtype)


def dask_chunk(series: Series, plan: ChunkPlan, dtype: np.dtype[Any]) -> Any:
    """One chunk as a Dask array."""
    delayed = need("dask.delayed", "to_dask()").delayed
    array = need("dask.array", "to_dask()")
    meta = np.empty((0,) * len(plan.shape), dtype)
    task = delayed(SeriesChunk(series, plan), pure=False, traverse=False)()
    return array.from_delayed(task, plan.shape, dtype=dtype, meta=meta)


def joined_chunks(chunks: list[Any], empty_shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Chunks one after the other."""
    array = need("dask.array", "to_dask()")
    if not chunks:
        return array.empty(empty_shape, dtype=dtype)
    return array.concatenate(chunks, axis=0)
