"""A run as labelled data: an xarray Dataset with the dimensions step and rank, whose values are read when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import ChoiceError
from insitu.store.run.conversion import need
from insitu.store.run.lazy_array import (
    ChunkPlan,
    dask_chunk,
    dtype_of,
    joined_chunks,
    rows_in_chunk,
    value_shape,
)
from insitu.store.stored_type import JSON, Array

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Grid:
    """The places of the values of a series: its steps, ranks and calls, and the place of each row among them."""

    steps: Array
    ranks: Array
    calls: Array
    step_places: Array
    inner_places: Array  # of rank and call within a step

    @classmethod
    def of(cls, series: Series) -> _Grid:
        steps, step_places = np.unique(series.steps, return_inverse=True)
        ranks, rank_places = np.unique(series.ranks, return_inverse=True)
        calls, call_places = np.unique(series.calls, return_inverse=True)
        return cls(steps, ranks, calls, step_places, rank_places * len(calls) + call_places)

    @property
    def inner(self) -> tuple[int, ...]:
        """The lengths of the dimensions between the step and the value."""
        if len(self.calls) > 1:
            return len(self.ranks), len(self.calls)
        return (len(self.ranks),)

    @property
    def names(self) -> list[str]:
        """The names of the dimensions before those of the value."""
        return ["step", "rank", "call"][: len(self.inner) + 1]

    def coordinates(self) -> dict[str, Array]:
        """The labels of the dimensions."""
        labels = {"step": self.steps, "rank": self.ranks, "call": self.calls}
        return {name: labels[name] for name in self.names}

    def holes(self) -> list[str]:
        """Some of the steps and ranks without a value."""
        size = prod(self.inner)
        is_there = np.zeros(len(self.steps) * size, bool)
        is_there[self.step_places * size + self.inner_places] = True
        empty = np.flatnonzero(~is_there)[:_MOST_NAMED]
        steps, ranks = self.steps[empty // size], self.ranks[empty % size // len(self.calls)]
        return [f"step {step} of rank {rank}" for step, rank in zip(steps.tolist(), ranks.tolist(), strict=True)]


def series_to_xarray(series: Series) -> Any:
    """A DataArray with the dimensions step, rank, call if a step has several values, and those of the value."""
    xarray = need("xarray", "to_xarray()")
    need("dask", "to_xarray()", extra="xarray")
    latest = series.latest()
    if len(latest._parts) != 1:
        raise ChoiceError(f"{series.name!r} joins several runs: use to_xarray() of each of them")
    dtype, shape, grid = dtype_of(latest), value_shape(latest), _Grid.of(latest)
    if dtype.kind not in "fc" and (holes := grid.holes()):
        listed = ", ".join(holes)
        raise ChoiceError(
            f"{series.name!r} has no value at {listed}, and {dtype} has no NaN for it: choose steps that all ranks"
            " have, as in series[10:20], or one rank, as in series.rank(0)"
        )
    data = joined_chunks(_chunks(latest, grid, dtype), (0, *grid.inner, *shape), dtype)
    names = [*grid.names, *(f"{series.name}_dim_{number}" for number in range(len(shape)))]
    return xarray.DataArray(data, dims=names, coords=grid.coordinates(), name=series.name, attrs=_attributes(series))


def _chunks(series: Series, grid: _Grid, dtype: np.dtype[Any]) -> list[Any]:
    """The chunks of a series: some steps each, with all ranks."""
    size, shape = prod(grid.inner), value_shape(series)
    steps_in_chunk = max(1, rows_in_chunk(series) // size)
    found = []
    for first in range(0, len(grid.steps), steps_in_chunk):
        last = min(first + steps_in_chunk, len(grid.steps))
        begin, end = np.searchsorted(grid.step_places, [first, last])
        places = (grid.step_places[begin:end] - first) * size + grid.inner_places[begin:end]
        plan = ChunkPlan(np.arange(begin, end), (last - first, *grid.inner, *shape), places)
        found.append(dask_chunk(series, plan, dtype))
    return found


def _attributes(series: Series) -> dict[str, Any]:
    if series.source is None:
        return {"dtype": series.dtype}
    return {"dtype": series.dtype, "source": series.source}


def run_to_xarray(run: Run, names: Sequence[str]) -> Any:
    """A Dataset of these variables; the attribute `left_out` says which of them are not numbers of one shape."""
    xarray = need("xarray", "to_xarray()")
    arrays, left_out = {}, []
    for name in names:
        try:
            _check_numbers(run[name])
            arrays[name] = series_to_xarray(run[name])
        except ChoiceError as error:
            left_out.append(str(error))
    attributes = {"run": run.id, "complete": int(run.complete), "missing": run.missing, "left_out": left_out}
    return xarray.Dataset(arrays, attrs=attributes)


def _check_numbers(series: Series) -> None:
    """Raise if a series of Python values does not begin with a number; the others are read when they are asked for."""
    if series.dtype != JSON or not len(series):
        return
    first = next(iter(series.where(np.arange(len(series)) == 0)))
    if first is not None and not isinstance(first, (int, float)):
        raise ChoiceError(f"{series.name!r} holds {first!r:.40}, which is not a number")
