"""A run that is being recorded, as curves that grow: new steps are added, and nothing is read twice.

A run is read whole at the beginning, and whenever something else than a new step happens: another variable, another
journal, the end of a rank. Between, only the ends of its journals are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np

from insitu.errors import ChoiceError, StoreError
from insitu.store import load
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.journal_state import state_of
from insitu.store.journal.journal_tail import JournalTail, TailValue
from insitu.store.journal.parts import parts_of, places
from insitu.store.journal.shard_facts import unfinished_sentences
from insitu.store.run.curves import RunVariables, points_for
from insitu.store.run.run import Run, source_of
from insitu.store.run.summary import condition_of
from insitu.store.run.value_numbers import SeriesTexts, python_values, statistic_column, tensor_values
from insitu.store.stored_type import JSON
from insitu.trace.curve import BandCurve, Curve, Numbers, curves_of
from insitu.trace.event import STATISTICS
from insitu.trace.run import RunSummary
from insitu.trace.variable_curves import VariableCurves, reduced

RunState = Literal["running", "ended", "killed", "unknown"]

Variables = dict[str, VariableCurves]

_TRIES = 3


class _OtherKindError(Exception):
    """New values do not fit the curves that are there: the run must be read again."""


class FollowedRun:
    """The variables of a run, now: `poll` looks for news."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._run: Run | None = None
        self._signature_read: Any = None
        self._tails: list[JournalTail] = []
        self.variables: Variables = {}
        self.reload()

    def reload(self) -> None:
        """Read the run from its file and its journals."""
        for _ in range(_TRIES):
            self._read(is_growing=True)
            try:
                self._take_news()
                return
            except _OtherKindError:  # a rank ended, or recorded another variable, while the run was read
                continue
        self._read(is_growing=False)
        self.variables = self._ended

    def _read(self, *, is_growing: bool) -> None:
        """Read the run; if it grows, without the last step of each journal, which its tail reads."""
        signature = self._signature()
        run = load(self.path)
        if not isinstance(run, Run):
            raise ChoiceError(f"{str(self.path)!r} is a trace, and a trace is complete: leave out --follow")
        self._signature_read = signature  # not before: a run that could not be read is read the next time
        if self._run is not None:
            self._run.close()
        self._run, self.id = run, run.id
        journals = source_of(run).journals
        growing = [shard for shard in journals if is_growing and _may_grow(shard, run)]
        self.condition: RunSummary = _without_unfinished(condition_of(run), growing)
        self.state: RunState = _state(run, journals)
        self._tails = [JournalTail(shard, _LastValues(run, shard)) for shard in growing]
        self._most = points_for(len(run.paths) * max(len(run.ranks), 1))
        bounds = {shard.rank: shard.counts.last for shard in growing}
        reading = RunVariables(run)
        self._names = OwnerNames.of(run, reading)
        self._ended: Variables = {name: reduced(_before(reading[name], bounds), self._most) for name in reading.names}

    def close(self) -> None:
        """Close the files."""
        if self._run is not None:
            self._run.close()

    def poll(self) -> None:
        """Look for news on the disk."""
        if self._signature() != self._signature_read:
            self.reload()
            return
        try:
            self._take_news()
        except _OtherKindError:
            self.reload()

    def _take_news(self) -> None:
        """Add the steps that were written since the last time."""
        parts = [tail.read() for tail in self._tails]
        is_over = any(tail.shard.ended is not None for tail in self._tails)
        if is_over:
            raise _OtherKindError
        for part in parts:
            self._ended = self._extended(self._ended, part.ended)
        self.variables = self._ended
        for part in parts:
            self.variables = self._extended(self.variables, part.open)

    def _extended(self, variables: Variables, values: list[TailValue]) -> Variables:
        """The variables with new values."""
        found = dict(variables)
        by_name: dict[str, list[TailValue]] = {}
        for value in values:
            by_name.setdefault(self._names.variable(value.key), []).append(value)
        for name, every in by_name.items():
            if name not in found:
                raise _OtherKindError
            later = self._curves(name, every)
            found[name] = _joined(found[name], later, self._most)
        return found

    def _curves(self, name: str, values: list[TailValue]) -> VariableCurves:
        if name in self._names.statistics:
            return _of_statistics(name, values)
        return _of_values(name, values)

    def _signature(self) -> Any:
        """What changes if more than steps were added: the files, and the state of each journal."""
        path = self.path
        parts = path if path.is_dir() else parts_of(path)
        try:
            journals = [(place.path.name, state_of(place)) for place in places(parts)] if parts.is_dir() else []
        except StoreError:
            journals = []
        return os.path.isfile(path), journals


def _state(run: Run, journals: list[Shard]) -> RunState:
    states = {shard.state for shard in journals}
    if run.running:
        return "running"
    if "unknown" in states:
        return "unknown"
    if "killed" in states or not all(attempt.ended is not None for attempt in run.attempts[-1:]):
        return "killed"
    return "ended"


def _without_unfinished(condition: RunSummary, growing: list[Shard]) -> RunSummary:
    """The condition of a run without the remark that it goes on."""
    texts = {text for shard in growing for text in unfinished_sentences(shard)}
    return replace(
        condition, missing=tuple(text for text in condition.missing if not (texts and text.endswith(tuple(texts))))
    )


def _may_grow(shard: Shard, run: Run) -> bool:
    """Whether a process may add steps to a journal."""
    is_last = shard.attempt == max((attempt.number for attempt in run.attempts), default=0)
    return is_last and shard.state in ("running", "unknown")


@dataclass(frozen=True)
class _LastValues:
    """The last value of each variable in a journal, which is read only if a value did not change since."""

    run: Run
    shard: Shard

    def __call__(self, path: str, dtype: str, call: int) -> Any:
        (recorded,) = [each for each in source_of(self.run).variables if (each.path, each.type.name) == (path, dtype)]
        series = self.run[recorded.name]
        last = self.shard.counts.last
        is_own = (series.ranks == self.shard.rank) & (series.attempts == self.shard.attempt) & (series.calls == call)
        rows = np.flatnonzero(is_own if last is None else is_own & (series.steps < last))
        wanted = np.zeros(len(series), bool)
        wanted[rows[-1:]] = True
        (value,) = series.where(wanted)
        return value


@dataclass(frozen=True)
class OwnerNames:
    """The name of the variable that each path and dtype belongs to; a statistic belongs to its tensor."""

    names: dict[tuple[str, str], str]
    statistics: frozenset[str]

    @classmethod
    def of(cls, run: Run, reading: RunVariables) -> OwnerNames:
        """The names of the variables of a run."""
        series = {(each.path, each.type.name): each.name for each in source_of(run).variables}
        names = {key: reading.owner(name) for key, name in series.items()}
        return cls(names, frozenset(reading.tensors_by_statistics))

    def variable(self, key: tuple[str, str]) -> str:
        """The variable of a path and dtype."""
        name = self.names.get(key)
        if name is None:
            raise _OtherKindError
        return name


def _before(variable: VariableCurves, bounds: dict[int, int | None]) -> VariableCurves:
    """The variable without the last step of a journal that grows, and without what an older attempt has after it."""

    def part(curve: Any) -> Any:
        bound = bounds.get(curve.rank)
        return curve if bound is None else curve.before(bound)

    return replace(variable, curves=tuple(map(part, variable.curves)), bands=tuple(map(part, variable.bands)))


def _joined(variable: VariableCurves, later: VariableCurves, most: int) -> VariableCurves:
    """A variable and new steps of it."""
    if (variable.curves and later.bands) or (variable.bands and later.curves):
        raise _OtherKindError
    curves = _by_rank(variable.curves, later.curves, lambda one, other: _extended_curve(one, other, most))
    bands = _by_rank(variable.bands, later.bands, lambda one, other: one.extended(other, most))
    return replace(variable, curves=curves, bands=bands)


def _by_rank(old: Iterable[Any], new: Iterable[Any], join: Callable[[Any, Any], Any]) -> tuple[Any, ...]:
    found = {curve.rank: curve for curve in old}
    for curve in new:
        found[curve.rank] = join(found[curve.rank], curve) if curve.rank in found else curve
    return tuple(curve for _, curve in sorted(found.items()))


def _extended_curve(curve: Curve, later: Curve, most: int) -> Curve:
    is_behind = len(curve) > 0 and len(later) > 0 and later.steps[0] < curve.steps[-1]
    if is_behind:  # the program went back to an earlier step
        raise _OtherKindError
    return curve.extended(later, most)


def _of_values(name: str, values: list[TailValue]) -> VariableCurves:
    """A variable that is numbers, tensors or texts."""
    (_, dtype) = values[0].key
    held = [value.value for value in values]
    found = python_values(held) if dtype == JSON else tensor_values(held, dtype)
    if isinstance(found, SeriesTexts):
        return VariableCurves(name, "variable", bands=tuple(_bands(values, found.texts)))
    rows = found.rows
    steps, ranks, times = (column[rows] for column in _columns(values))
    curves = curves_of(steps, ranks, times, found.numbers, is_whole=found.is_whole)
    return VariableCurves(name, "variable", curves=tuple(curves))


def _bands(values: list[TailValue], texts: list[str]) -> Iterable[BandCurve]:
    rows = sorted(zip(values, texts, strict=True), key=lambda row: (row[0].rank, row[0].step))
    for rank, group in groupby(rows, key=lambda row: row[0].rank):
        own = list(group)
        yield BandCurve.of_texts(rank, [value.step for value, _ in own], [text for _, text in own])


def _of_statistics(name: str, values: list[TailValue]) -> VariableCurves:
    """A tensor of which the statistics were recorded; a value that lacks one of them is left out."""
    by_moment: dict[tuple[int, int, int], dict[str, TailValue]] = {}
    for value in values:
        statistic = value.key[0].rpartition(".")[2]
        by_moment.setdefault((value.rank, value.step, value.call), {})[statistic] = value
    whole = [named for named in by_moment.values() if len(named) == len(STATISTICS)]
    columns = {row.name: statistic_column([named[row.name].value for named in whole]) for row in STATISTICS}
    steps, ranks, times = _columns([named["count"] for named in whole])
    numbers = Numbers.of_statistics({statistic: column.numbers for statistic, column in columns.items()})
    is_whole = columns["min"].is_whole and columns["max"].is_whole
    return VariableCurves(name, "variable", curves=tuple(curves_of(steps, ranks, times, numbers, is_whole=is_whole)))


def _columns(values: list[TailValue]) -> tuple[Any, Any, Any]:
    """The step, the rank and the time of each value."""
    steps = np.array([value.step for value in values], np.int64)
    ranks = np.array([value.rank for value in values], np.int64)
    return steps, ranks, np.array([value.time for value in values], np.float64)
