"""Summarizes a variable of a run: its range and the curve of its mean, from all values or from a sample of many."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import MissingError
from insitu.store.run.sample import MOST_BYTES, sample
from insitu.store.stored_type import JSON, Array
from insitu.trace.run import VariableSummary

if TYPE_CHECKING:
    from insitu.store.run.series import Series

_NOTHING: Array = np.empty(0)


def summary_of(series: Series, points: int, shared_by: int) -> VariableSummary:
    """The summary of a series; `shared_by` is the number of series that share the limit of bytes to read."""
    shapes = sorted(set(series.shapes), key=lambda shape: (len(shape), prod(shape)))
    chosen = sample(series, points, MOST_BYTES // max(shared_by, 1))
    values = _numbers(chosen)
    every = np.concatenate([value.ravel() for value in values] or [_NOTHING])
    low, high = _ends(every)
    every = every.astype(np.float64)
    return VariableSummary(
        path=series.name,
        dtype=_dtype(chosen),
        shapes=_bounds(shapes) if series.dtype != JSON else (),
        rows=len(series),
        steps=(int(series.steps.min()), int(series.steps.max())),
        ranks=tuple(np.unique(series.ranks).tolist()),
        low=low,
        high=high,
        nan=int(np.isnan(every).sum()),
        inf=int(np.isinf(every).sum()),
        means=_means_of_latest(chosen, values, points),
        sampled=len(chosen) < len(series),
        source=series.source,
        last=_last(chosen, values, int(series.steps.max())),
    )


def _bounds(shapes: list[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The least and the largest size of each dimension or, where their number differs, the first and the last shape."""
    if len(shapes[0]) != len(shapes[-1]):
        return shapes[0], shapes[-1]
    return tuple(map(min, *shapes, shapes[0])), tuple(map(max, *shapes, shapes[0]))


def _ends(values: Array) -> tuple[float | None, float | None]:
    """The least and the largest of the finite values; integers are exact."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not finite.size:
        return None, None
    return finite.min().item(), finite.max().item()


def _dtype(series: Series) -> str:
    is_number = series.dtype == JSON and isinstance(series.values, np.ndarray)
    if is_number:
        return str(series.values.dtype.name.removesuffix("64"))
    return series.dtype


def _numbers(series: Series) -> list[Array]:
    """The values as floats or, if all are integers, as integers; nothing for values that are not numbers.

    None becomes an empty array: a mean is None where no value is finite.
    """
    try:
        values = list(series) if series.dtype == JSON else list(series.values)
    except MissingError:
        return []
    arrays = []
    for array in map(_array, values):
        if array is None:
            return []
        arrays.append(array)
    return _of_one_type(arrays)


def _of_one_type(arrays: list[Array]) -> list[Array]:
    """The arrays with the type that all of them have, or else as floats; no arrays if none has numbers."""
    dtypes = {array.dtype for array in arrays if array is not _NOTHING}
    if not dtypes:
        return []
    dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float64)
    return [array.astype(dtype) for array in arrays]


def _array(value: Any) -> Array | None:
    """A value as an array of integers or floats; None if the value is not numbers."""
    if value is None:
        return _NOTHING
    if isinstance(value, str | bytes):
        return None
    try:
        array = np.asarray(value)
        convert = _CONVERSIONS.get(array.dtype.kind)
        if convert is None:
            return None
        return convert(array)
    except (TypeError, ValueError, OverflowError):
        return None


def _float64(array: Array) -> Array:
    return array.astype(np.float64)


# By the kind of the dtype; V is a dtype of ml_dtypes.
_CONVERSIONS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys("iu", np.asarray),
    **dict.fromkeys("bfV", _float64),
    "c": lambda array: _float64(abs(array)),
}


def _means_of_latest(series: Series, values: list[Array], points: int) -> tuple[float | None, ...]:
    """The means, without the values of a step that a later attempt recorded again."""
    if not values:
        return ()
    keep = series._is_latest()
    return _means(series.steps[keep], [value for value, is_kept in zip(values, keep, strict=True) if is_kept], points)


def _last(series: Series, values: list[Array], step: int) -> float | None:
    """The mean of the last step; None if the sample lacks it."""
    if not values:
        return None
    keep = series._is_latest() & (series.steps == step)
    means = _means(series.steps[keep], [value for value, is_kept in zip(values, keep, strict=True) if is_kept], 1)
    return next(iter(means), None)


def _means(steps: Array, values: list[Array], points: int) -> tuple[float | None, ...]:
    """The mean of the finite values of each step, or of the steps that share a point.

    None for a point with a value that has no finite number: the other values would hide it.
    """
    if not values:
        return ()
    unique, number = np.unique(steps, return_inverse=True)
    group = number * min(points, len(unique)) // len(unique)
    sums, counts = np.zeros(group.max() + 1), np.zeros(group.max() + 1)
    for place, value in zip(group.tolist(), values, strict=True):
        finite = value[np.isfinite(value)]
        sums[place] += finite.sum(dtype=np.float64)
        has_no_finite = value.size and not finite.size
        counts[place] += np.nan if has_no_finite else finite.size
    return tuple(map(_mean, sums.tolist(), counts.tolist()))


def _mean(total: float, count: float) -> float | None:
    """The mean; None for a count of 0 or NaN."""
    if count > 0:
        return total / count
    return None
