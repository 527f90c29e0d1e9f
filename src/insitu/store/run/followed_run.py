"""A run that is being recorded, as curves that grow: new steps are added, and nothing is read twice.

A run is read whole at the beginning, and whenever something else than a new step happens: another variable, another
journal, the end of a rank. Between, only the ends of its journals are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
from insitu.store.run.tail_curves import curves_of_statistics, curves_of_values
from insitu.trace.curve import Curve
from insitu.trace.run import RunSummary
from insitu.trace.variable_curves import VariableCurves, reduced

RunState = Literal["running", "ended", "killed", "unknown"]

Variables = dict[str, VariableCurves]

_TRIES = 3


class _StaleReadingError(Exception):
    """What was read does not fit what is on the disk now: the run must be read again."""


class FollowedRun:
    """The variables of a run, now: `poll` looks for news.

    `_ended` are the curves of the steps that have ended. `variables` have the open step of each journal, too: as long
    as its values may change, it is added to the ended steps again at each poll.
    """

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
            except _StaleReadingError:  # a rank ended, or recorded another variable, while the run was read
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
        except _StaleReadingError:
            self.reload()

    def _take_news(self) -> None:
        """Add the steps that were written since the last time."""
        parts = [tail.read() for tail in self._tails]
        is_over = any(tail.shard.ended is not None for tail in self._tails)
        if is_over:
            raise _StaleReadingError
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
                raise _StaleReadingError
            later = self._curves(name, every)
            found[name] = _joined(found[name], later, self._most)
        return found

    def _curves(self, name: str, values: list[TailValue]) -> VariableCurves:
        """New values of a variable as curves of their own."""
        if name in self._names.statistics:
            return curves_of_statistics(name, values)
        return curves_of_values(name, values)

    def _signature(self) -> Any:
        """What changes if more than steps were added: the files, and the state of each journal."""
        return os.path.isfile(self.path), _journal_states(self.path)


def _journal_states(path: Path) -> list[tuple[str, Any]]:
    """The name and the state of each journal of a run; none if they cannot be read now."""
    parts = path if path.is_dir() else parts_of(path)
    if not parts.is_dir():
        return []
    try:
        return [(place.path.name, state_of(place)) for place in places(parts)]
    except StoreError:
        return []


def _state(run: Run, journals: list[Shard]) -> RunState:
    """Whether the processes that record still run, as far as known; the worst state of a rank counts."""
    states = {shard.state for shard in journals}
    has_unended = any(attempt.ended is None for attempt in run.attempts[-1:])
    if run.running:
        return "running"
    if "unknown" in states:
        return "unknown"
    if "killed" in states or has_unended:
        return "killed"
    return "ended"


def _without_unfinished(condition: RunSummary, growing: list[Shard]) -> RunSummary:
    """The condition of a run without the remark that it goes on."""
    remarks = tuple(text for shard in growing for text in unfinished_sentences(shard))
    missing = [text for text in condition.missing if not text.endswith(remarks)]
    return replace(condition, missing=tuple(missing))


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
        is_wanted = (series.ranks == self.shard.rank) & (series.attempts == self.shard.attempt) & (series.calls == call)
        last = self.shard.counts.last
        if last is not None:
            is_wanted &= series.steps < last
        rows = np.flatnonzero(is_wanted)
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
            raise _StaleReadingError
        return name


def _before(variable: VariableCurves, bounds: dict[int, int | None]) -> VariableCurves:
    """The variable without the last step of a journal that grows, and without what an older attempt has after it."""

    def part(curve: Any) -> Any:
        bound = bounds.get(curve.rank)
        return curve if bound is None else curve.before(bound)

    return replace(variable, curves=tuple(map(part, variable.curves)), bands=tuple(map(part, variable.bands)))


def _joined(variable: VariableCurves, later: VariableCurves, most: int) -> VariableCurves:
    """A variable and new steps of it."""
    became_text = variable.curves and later.bands
    became_number = variable.bands and later.curves
    if became_text or became_number:
        raise _StaleReadingError
    curves = _by_rank(variable.curves, later.curves, lambda one, other: _extended_curve(one, other, most))
    bands = _by_rank(variable.bands, later.bands, lambda one, other: one.extended(other, most))
    return replace(variable, curves=curves, bands=bands)


def _by_rank(old: Iterable[Any], new: Iterable[Any], join: Callable[[Any, Any], Any]) -> tuple[Any, ...]:
    """The curves of all ranks: `join` adds the new curve of a rank to its old one."""
    found = {curve.rank: curve for curve in old}
    for curve in new:
        found[curve.rank] = join(found[curve.rank], curve) if curve.rank in found else curve
    return tuple(curve for _, curve in sorted(found.items()))


def _extended_curve(curve: Curve, later: Curve, most: int) -> Curve:
    """A curve with later points, reduced to `most` points."""
    is_behind = len(curve) > 0 and len(later) > 0 and later.steps[0] < curve.steps[-1]
    if is_behind:  # the program went back to an earlier step
        raise _StaleReadingError
    return curve.extended(later, most)
