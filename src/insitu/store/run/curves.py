"""The variables of a run over its steps: numbers and tensors as curves, texts as bands, statistics joined into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from insitu.store.run.summary import summary_of, summary_of_statistics
from insitu.store.run.value_numbers import SeriesNumbers, SeriesTexts, statistic_of, values_of
from insitu.store.stored_type import Array
from insitu.trace.counter import count_progress
from insitu.trace.curve import BandCurve, Curve, Numbers, curves_of
from insitu.trace.model_paths import ModelPaths
from insitu.trace.run import VariableSummary
from insitu.trace.variable_curves import NormSource, VariableCurves, joined_statistics, reduced

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series

_MOST_POINTS = 4000  # of a curve: more than a screen is wide
_LEAST_POINTS = 500
_ALL_POINTS = 300_000  # of all curves of a run


def curves(series: Series) -> list[Curve]:
    """The numbers of a series, rank by rank. Several values in one step are one point; a text has none."""
    found = values_of(series)
    if isinstance(found, SeriesTexts):
        return []
    return _curves(series, found)


def _curves(series: Series, found: SeriesNumbers) -> list[Curve]:
    rows = found.rows
    steps, ranks, times = series.steps[rows], series.ranks[rows], series.times[rows]
    return curves_of(steps, ranks, times, found.numbers, is_whole=found.is_whole)


def _bands(series: Series, texts: list[str]) -> list[BandCurve]:
    steps, ranks = series.steps.tolist(), series.ranks
    found = []
    for rank in np.unique(ranks).tolist():
        rows = np.flatnonzero(ranks == rank).tolist()
        found.append(BandCurve.of_texts(rank, [steps[row] for row in rows], [texts[row] for row in rows]))
    return found


def points_for(lines: int) -> int:
    """How many points each of so many curves may have, so that a page of all of them stays quick.

    >>> points_for(1), points_for(300), points_for(10_000)
    (4000, 1000, 500)
    """
    return max(_LEAST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(lines, 1)))


class RunVariables:
    """The variables of a run, which are read one at a time; the statistics of one tensor are one variable.

    Each step is as the last attempt recorded it.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._model = ModelPaths.from_about(run.about)
        self._statistics = joined_statistics(run.paths)
        self._owners = {path: base for base, named in self._statistics.items() for path in named.values()}
        self.names = self._model.sorted(list(dict.fromkeys(map(self.owner, run.paths))))

    def owner(self, path: str) -> str:
        """The variable that a path is: of a statistic, the tensor."""
        return self._owners.get(path, path)

    @property
    def tensors_by_statistics(self) -> list[str]:
        """The tensors of which statistics were recorded."""
        return list(self._statistics)

    @property
    def paths(self) -> list[str]:
        """The paths that can be asked for: variables, and statistics of them."""
        return list(dict.fromkeys([*self.names, *self._run.paths]))

    def drawn(self, names: Sequence[str]) -> list[VariableCurves]:
        """The curves of these variables, each with as many points as a page can draw."""
        most = points_for(len(names) * len(self._run.ranks))
        return [reduced(self[name], most) for name in count_progress(names, len(names), "reading the run", stride=1)]

    def __getitem__(self, name: str) -> VariableCurves:
        """One variable, with a point for each step."""
        if name in self._statistics:
            return self._of_statistics(name)
        series = self._run[name].latest()
        role, source = self._model.role(name.partition("@")[0]), series.source or ""
        found = values_of(series)
        if isinstance(found, SeriesTexts):
            return VariableCurves(name, role, found.type, bands=tuple(_bands(series, found.texts)), source=source)
        norm: NormSource = "values" if found.is_tensor else ""
        return VariableCurves(name, role, found.type, tuple(_curves(series, found)), norm=norm, source=source)

    def summary(self, name: str, points: int) -> VariableSummary:
        """One variable in a few numbers."""
        if name in self._statistics:
            return summary_of_statistics(self[name], points)
        role = self._model.role(name.partition("@")[0])
        return summary_of(self._run[name], points, len(self._run), role)

    def _of_statistics(self, name: str) -> VariableCurves:
        every = {statistic: self._run[path].latest() for statistic, path in self._statistics[name].items()}
        rows = common_rows(list(every.values()))
        found = {statistic: statistic_of(series) for statistic, series in every.items()}
        columns = {statistic: found[statistic].numbers[rows[place]] for place, statistic in enumerate(every)}
        first, here = next(iter(every.values())), rows[0]
        curves = curves_of(
            first.steps[here],
            first.ranks[here],
            first.times[here],
            Numbers.of_statistics(columns),
            is_whole=found["min"].is_whole and found["max"].is_whole,
        )
        kind, source = _count_text(columns["count"]), first.source or ""
        return VariableCurves(name, self._model.role(name), kind, tuple(curves), norm="statistics", source=source)


def _count_text(counts: Array) -> str:
    """How many elements the tensors have."""
    known = np.unique(counts).astype(np.int64).tolist()
    if known == [1]:
        return "1 element"
    if len(known) == 1:
        return f"{known[0]:,} elements"
    return f"{known[0]:,} … {known[-1]:,} elements"


def common_rows(every: list[Series]) -> list[Array]:
    """The rows of each series that all of them have; mostly all rows, because statistics are written together."""
    keys = [np.stack([series.steps, series.ranks, series.attempts, series.calls], axis=1) for series in every]
    if all(np.array_equal(keys[0], other) for other in keys[1:]):
        return [np.arange(len(keys[0]))] * len(every)
    rows = [{key: row for row, key in enumerate(map(tuple, own.tolist()))} for own in keys]
    common = [key for key in rows[0] if all(key in other for other in rows[1:])]
    return [np.array([own[key] for key in common], np.int64) for own in rows]
