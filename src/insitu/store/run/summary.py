"""Summarizes a variable of a run: its range and the curve of its mean, from all values or from a sample of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import MissingError
from insitu.store.run.sample import MOST_BYTES, largest_value, sample
from insitu.store.run.value_numbers import SeriesNumbers, SeriesTexts, short_text, values_of
from insitu.store.stored_type import JSON, Array
from insitu.trace.curve import Curve, Numbers
from insitu.trace.model_paths import Role
from insitu.trace.run import RunSummary, VariableSummary
from insitu.trace.variable_curves import VariableCurves

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series

MOST_READ = 2**28  # bytes that are read to show a run; beyond that, its variables are sampled
_NOTHING: Array = np.empty(0)


def condition_of(run: Run) -> RunSummary:
    """What is missing in a run and what happened in it; nothing about its variables."""
    return RunSummary(
        variables=(),
        missing=tuple(run.missing),
        others=tuple(run.others),
        attempts=tuple(run.attempts),
        events=tuple(run.events),
    )


def summary_of(series: Series, points: int, shared_by: int, role: Role = "variable") -> VariableSummary:
    """The summary of a series; `shared_by` is the number of series that share the limits of bytes to read.

    A series that is too large to be held in memory is read in parts, and one that is too large to be read is sampled.
    """
    held, read = (limit // max(shared_by, 1) for limit in (MOST_BYTES, MOST_READ))
    size = largest_value(series) * len(series)
    is_read_in_parts = held < size <= read
    if not is_read_in_parts:
        return _sampled_summary(series, points, held, role)
    numbers = values_of(series)
    if isinstance(numbers, SeriesTexts):
        return _sampled_summary(series, points, held, role)
    return _with_all_values(_sampled_summary(series, points, 0, role), series, numbers, points)


def _with_all_values(found: VariableSummary, series: Series, known: SeriesNumbers, points: int) -> VariableSummary:
    """A summary with the numbers of all values in place of those of a sample."""
    numbers = known.numbers
    keep = series._is_latest()[known.rows]
    steps = series.steps[known.rows]
    means, norms = (_per_step(steps[keep], column[keep]) for column in (numbers.mean, numbers.norm))
    if not known.is_tensor:
        norms = _NO_VALUES
    is_odd = (numbers.nan + numbers.inf > 0) & keep
    low, high = _ends(np.concatenate([numbers.low, numbers.high]))
    last = int(series.steps.max())
    return replace(
        found,
        low=low,
        high=high,
        nan=int(numbers.nan.sum()),
        inf=int(numbers.inf.sum()),
        means=_means(means, points),
        mean=_mean_of_all(numbers),
        last=_last(means, last),
        norms=_means(norms, points),
        norm=_last(norms, last),
        first_odd=_first(steps[is_odd].tolist()),
        sampled=False,
    )


def _mean_of_all(numbers: Numbers) -> float | None:
    """The mean of all finite elements of several values, which may have different sizes."""
    is_known = np.isfinite(numbers.mean)
    counts = numbers.count[is_known]
    if not counts.any():
        return None
    return float((numbers.mean[is_known] * (counts / counts.sum())).sum())


def _sampled_summary(series: Series, points: int, most_bytes: int, role: Role) -> VariableSummary:
    """The summary of a series by as many of its values as a number of bytes allows, and by at least one."""
    shapes = sorted(set(series.shapes), key=lambda shape: (len(shape), prod(shape)))
    chosen = sample(series, points, most_bytes)
    values = _numbers(chosen)
    every = np.concatenate([value.ravel() for value in values] or [_NOTHING])
    low, high = _ends(every)
    every = every.astype(np.float64)
    latest = _latest(chosen, values)
    last = int(series.steps.max())
    is_tensor = series.dtype != JSON and shapes[-1] != ()
    norms = _norms(latest) if is_tensor else _NO_VALUES
    return VariableSummary(
        path=series.name,
        dtype=_dtype(chosen),
        shapes=_bounds(shapes) if series.dtype != JSON else (),
        rows=len(series),
        steps=(int(series.steps.min()), last),
        ranks=tuple(np.unique(series.ranks).tolist()),
        low=low,
        high=high,
        nan=int(np.isnan(every).sum()),
        inf=int(np.isinf(every).sum()),
        means=_means(latest, points),
        sampled=len(chosen) < len(series),
        source=series.source,
        mean=_mean_of(every),
        last=_last(latest, last) if values else _last_text(series),
        norms=_means(norms, points),
        norm=_last(norms, last),
        role=role,
        first_odd=_first_odd(latest),
    )


def summary_of_statistics(variable: VariableCurves, points: int) -> VariableSummary:
    """The summary of a tensor of which the statistics of each step were recorded."""
    curves = variable.curves
    steps = np.concatenate([curve.steps for curve in curves])
    numbers = Numbers.stacked([curve.numbers for curve in curves])
    counts = numbers.count + numbers.nan + numbers.inf
    low, high = _ends(np.concatenate([numbers.low, numbers.high]))
    means, norms = (_per_step(steps, column) for column in (numbers.mean, numbers.norm))
    return VariableSummary(
        path=variable.path,
        dtype="statistics",
        shapes=(),
        rows=int(sum(curve.weight.sum() for curve in curves)),
        steps=(int(steps.min()), int(steps.max())),
        ranks=tuple(curve.rank for curve in curves),
        low=_integer(low, curves),
        high=_integer(high, curves),
        nan=int(numbers.nan.sum()),
        inf=int(numbers.inf.sum()),
        means=_means(means, points),
        sampled=False,
        source=variable.source or None,
        mean=_mean_of(numbers.mean),
        last=_last(means, int(steps.max())),
        norms=_means(norms, points),
        norm=_last(norms, int(steps.max())),
        elements=(int(counts.min()), int(counts.max())),
        role=variable.role,
        first_odd=_first([curve.first_odd for curve in curves if curve.first_odd is not None]),
    )


def _integer(number: float | None, curves: Sequence[Curve]) -> float | None:
    """An end of a range, as an integer if all values are."""
    if number is not None and all(curve.is_whole for curve in curves):
        return int(number)
    return number


@dataclass(frozen=True, slots=True)
class LatestValues:
    """Values as the last attempt recorded them, each with its step, ordered by step."""

    steps: Array
    values: list[Array]


_NO_VALUES = LatestValues(_NOTHING, [])


def _latest(series: Series, values: list[Array]) -> LatestValues:
    """The values of a series without those of a step that a later attempt recorded again."""
    if not values:
        return _NO_VALUES
    keep = series._is_latest()
    return LatestValues(series.steps[keep], [value for value, is_kept in zip(values, keep, strict=True) if is_kept])


def _per_step(steps: Array, column: Array) -> LatestValues:
    """The numbers of all ranks, each as a value."""
    order = np.argsort(steps, kind="stable")
    return LatestValues(steps[order], [np.array([number]) for number in column[order].tolist()])


def _norms(latest: LatestValues) -> LatestValues:
    """The l2 norm of each value; without BLAS, whose threads wait for each other on a busy machine."""
    finite = [value[np.isfinite(value)].astype(np.float64) for value in latest.values]
    with np.errstate(over="ignore"):
        return LatestValues(latest.steps, [np.sqrt(np.square(value).sum(keepdims=True)) for value in finite])


def _mean_of(values: Array) -> float | None:
    """The mean of the finite values; shares, because the sum may be too large for a float."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    return float((finite / finite.size).sum())


def _last(latest: LatestValues, step: int) -> float | None:
    """The mean of the last step; None if one of its values has no finite number, or if a sample lacks it."""
    is_last = latest.steps == step
    last = [value for value, is_in in zip(latest.values, is_last, strict=False) if is_in]
    return next(iter(_means(LatestValues(latest.steps[is_last], last), 1)), None)


def _first_odd(latest: LatestValues) -> int | None:
    """The first step with a NaN or an Inf."""
    pairs = zip(latest.steps.tolist(), latest.values, strict=True)
    return _first([step for step, value in pairs if not np.isfinite(value).all()])


def _first(steps: list[int]) -> int | None:
    """The first of some steps; None if there are none."""
    return min(steps, default=None)


def _last_text(series: Series) -> str | None:
    """The last value of a variable of Python values that are not numbers."""
    if series.dtype != JSON:
        return None
    wanted = np.zeros(len(series), bool)
    wanted[-1] = True
    (value,) = series.where(wanted)
    if value is None:
        return None
    return short_text(value)


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
    """The dtype of a series; of Python numbers, what they are: int or float."""
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


def _means(latest: LatestValues, points: int) -> tuple[float | None, ...]:
    """The mean of the finite values of each step, or of the steps that share a point.

    None for a point with a value that has no finite number: the other values would hide it.
    """
    if not latest.values:
        return ()
    unique, number = np.unique(latest.steps, return_inverse=True)
    group = number * min(points, len(unique)) // len(unique)
    sums, counts = np.zeros(group.max() + 1), np.zeros(group.max() + 1)
    for place, value in zip(group.tolist(), latest.values, strict=True):
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
