"""A variable in a line: its range and how its mean went, from all of it or, where that is much, from a sample."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from insitu.errors import MissingError
from insitu.store.dtypes import JSON, kind_of
from insitu.store.series import Series
from insitu.store.value import Array

_MOST_BYTES = 2**26  # read for the summary of a whole run


@dataclass(frozen=True, slots=True)
class Summary:
    """Plain numbers about a variable; `shapes` are the least and the largest, `means` the mean of each group of steps,
    each step as its last attempt has it.

    `dtype` is "float", "int" or "bool" of Python numbers, and "json" of other Python values, which have no shapes.
    `sampled` says that range, counts and means are those of a sample.
    """

    path: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    rows: int
    steps: tuple[int, int]
    ranks: tuple[int, ...]
    low: float | None
    high: float | None
    nan: int
    inf: int
    means: tuple[float | None, ...]
    sampled: bool
    source: str | None


def summary_of(series: Series, points: int, shared_by: int) -> Summary:
    """The summary of a series; so many of them share the time that one may take."""
    shapes = sorted(set(series.shapes), key=lambda shape: (len(shape), prod(shape)))
    chosen = _sample(series, shapes, points, _MOST_BYTES // max(shared_by, 1))
    values = _numbers(chosen)
    every = np.concatenate([value.ravel() for value in values]) if values else np.empty(0)
    finite = every[np.isfinite(every)]
    return Summary(
        path=series.name,
        dtype=_dtype(chosen),
        shapes=(shapes[0], shapes[-1]) if series.dtype != JSON else (),
        rows=len(series),
        steps=(int(series.steps.min()), int(series.steps.max())),
        ranks=tuple(np.unique(series.ranks).tolist()),
        low=float(finite.min()) if finite.size else None,
        high=float(finite.max()) if finite.size else None,
        nan=int(np.isnan(every).sum()),
        inf=int(np.isinf(every).sum()),
        means=_means_of_latest(chosen, values, points),
        sampled=len(chosen) < len(series),
        source=series.source,
    )


def _dtype(series: Series) -> str:
    is_number = series.dtype == JSON and isinstance(series.values, np.ndarray)
    return series.values.dtype.name.removesuffix("64") if is_number else series.dtype


def _sample(series: Series, shapes: list[tuple[int, ...]], points: int, budget: int) -> Series:
    """All of it if that is little, else values of some steps that lie evenly among all."""
    largest = kind_of(series.dtype).itemsize * max(map(prod, shapes))
    most = max(budget // max(largest, 1), 1)
    if len(series) <= most:
        return series
    steps = np.unique(series.steps)
    wanted = steps[np.linspace(0, len(steps) - 1, min(len(steps), max(2, min(points, most)))).astype(int)]
    keep = np.isin(series.steps, wanted)
    keep &= np.cumsum(keep) <= max(most, 2)
    return series.where(keep)


def _numbers(series: Series) -> list[Array]:
    """The values as floats; nothing for those that are no numbers."""
    try:
        values = list(series.values)
    except MissingError:
        return []
    made = [number for value in values if (number := _floats(value)) is not None]
    return made if len(made) == len(values) else []


def _floats(value: Any) -> Array | None:
    if isinstance(value, str | bytes) or value is None:
        return None
    try:
        array = np.asarray(value)
        array = abs(array) if array.dtype.kind == "c" else array
        return array.astype(np.float64) if array.dtype.kind in "biufV" else None
    except (TypeError, ValueError, OverflowError):
        return None


def _means_of_latest(series: Series, values: list[Array], points: int) -> tuple[float | None, ...]:
    """The means without what an earlier attempt has of a step."""
    if not values:
        return ()
    keep = series._is_latest()
    return _means(series.steps[keep], [value for value, is_kept in zip(values, keep, strict=True) if is_kept], points)


def _means(steps: Array, values: list[Array], points: int) -> tuple[float | None, ...]:
    """The mean of the finite values of each step, or of as many steps as make up a point."""
    if not values:
        return ()
    unique, number = np.unique(steps, return_inverse=True)
    group = number * min(points, len(unique)) // len(unique)
    sums, counts = np.zeros(group.max() + 1), np.zeros(group.max() + 1)
    for place, value in zip(group.tolist(), values, strict=True):
        finite = value[np.isfinite(value)]
        sums[place] += finite.sum()
        counts[place] += finite.size
    return tuple(float(total / count) if count else None for total, count in zip(sums, counts, strict=True))
