"""Compares recorded runs that are larger than the memory: each variable up to its first difference.

The checksums of the values are compared first: values with equal checksums are equal, and are not read. The others are
read one after the other until one differs by more than the tolerance. What is left is small, and is compared as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from insitu.errors import tell
from insitu.store.run.run import Run, source_of
from insitu.store.run.series import Series
from insitu.store.stored_type import JSON, Array, stored_type
from insitu.trace.compare.closeness import Tolerance, close_plain
from insitu.trace.compare.rename import Renamer, renamer
from insitu.trace.curve import Numbers
from insitu.trace.dtype import dtype_named
from insitu.trace.event import Event, Stats, TensorFacts, Variable
from insitu.trace.trace import Trace
from insitu.verbs.run_site import run_site

LARGE = 2**28  # bytes of a run that is not compared in memory
_BATCH = 2**24  # bytes of values that are read at once
_KEPT = 2**27  # bytes of values that the comparison holds; of the others, statistics
_SMALL = 2**16  # bytes of a value that is always held


def is_large(run: object) -> bool:
    """Whether something is a recorded run that is not compared in memory."""
    return isinstance(run, Run) and sum(facts.size for facts in source_of(run).shards) > LARGE


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The rows of a variable in both runs that belong together, and those that only one run has."""

    a: Array
    b: Array
    only_a: Array
    only_b: Array

    @classmethod
    def of(cls, a: Series, b: Series) -> _Pairs:
        one, other = _keys(a), _keys(b)
        if np.array_equal(one, other):
            every, none = np.arange(len(a)), np.empty(0, np.int64)
            return cls(every, every, none, none)
        _, here, there = np.intersect1d(one, other, return_indices=True)
        order = np.argsort(here)
        here, there = here[order], there[order]
        return cls(here, there, _others(len(a), here), _others(len(b), there))


def _keys(series: Series) -> Array:
    """The step, rank and call of each value."""
    columns = {"step": series.steps, "rank": series.ranks, "call": series.calls}
    found = np.empty(len(series), [(name, np.int64) for name in columns])
    for name, column in columns.items():
        found[name] = column
    return found


def _others(count: int, known: Array) -> Array:
    is_other = np.ones(count, bool)
    is_other[known] = False
    return np.flatnonzero(is_other)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The pair of values at which a variable is shown, how many pairs it has, and how many of them were read."""

    row_a: int
    row_b: int
    differs: bool
    pairs: int
    read: int
    equal: int


class LargeComparison:
    """Finds the values at which two large runs are compared."""

    def __init__(self, a: Run, b: Run, rename: Mapping[str, str] | None, tolerance: Tolerance) -> None:
        self._runs, self._tolerance = (a, b), tolerance
        self._rename: Renamer = renamer(rename, a.paths)
        self._room = _KEPT
        self._found: tuple[list[_PlacedVariable], list[_PlacedVariable]] = ([], [])

    def traces(self) -> tuple[Trace, Trace]:
        """Both runs as traces of few values; says how many values were compared."""
        a, b = self._runs
        partners = {self._rename(path): path for path in a.paths}
        choices = []
        for order, path in enumerate(a.paths):
            if self._rename(path) in b:
                choices.append(self._add_pair(path, self._rename(path), order))
            else:
                self._add(0, _series(a, path), 0, order)
        for order, path in enumerate(b.paths, len(a.paths)):
            if path not in partners:
                self._add(1, _series(b, path), 0, order)
        self._tell([choice for choice in choices if choice is not None])
        return _trace(a, self._found[0]), _trace(b, self._found[1])

    def _tell(self, choices: list[_Choice]) -> None:
        pairs, read = sum(choice.pairs for choice in choices), sum(choice.read for choice in choices)
        equal = sum(choice.equal for choice in choices)
        tell(
            f"the runs are large: each variable is compared up to its first difference. Of {pairs:,} pairs of values,"
            f" {equal:,} have equal checksums and {read:,} were read"
        )

    def _add_pair(self, path: str, other: str, order: int) -> _Choice | None:
        """Choose the values of a variable that both runs have."""
        a, b = _series(self._runs[0], path), _series(self._runs[1], other)
        pairs = _Pairs.of(a, b)
        for side, (series, rows) in enumerate(((a, pairs.only_a), (b, pairs.only_b))):
            if len(rows):
                self._add(side, series, int(rows[0]), order)
        if not len(pairs.a):
            return None
        choice = self._choose(a, b, pairs)
        holds_values = self._take_room(max(_size(a), _size(b)), choice)
        self._add(0, a, choice.row_a, order, holds_values=holds_values, differs=choice.differs)
        self._add(1, b, choice.row_b, order, holds_values=holds_values, differs=choice.differs)
        return choice

    def _take_room(self, size: int, choice: _Choice) -> bool:
        """Whether there is memory for the values of a choice."""
        if size <= _SMALL:
            return True
        if not choice.differs or 2 * size > self._room:
            return False
        self._room -= 2 * size
        return True

    def _choose(self, a: Series, b: Series, pairs: _Pairs) -> _Choice:
        """The first pair beyond the tolerance; else the first that is not equal; else the first."""
        unequal = np.flatnonzero(~_have_equal_digests(a, b, pairs))
        count, equal, read = len(pairs.a), len(pairs.a) - len(unequal), 0
        first = int(unequal[0]) if len(unequal) else 0
        for number, is_close in self._closeness(a, b, pairs, unequal):
            read += 1
            if not is_close:
                return _Choice(int(pairs.a[number]), int(pairs.b[number]), True, count, read, equal)
        return _Choice(int(pairs.a[first]), int(pairs.b[first]), bool(len(unequal)), count, read, equal)

    def _closeness(self, a: Series, b: Series, pairs: _Pairs, unequal: Array) -> Iterator[tuple[int, bool]]:
        """Whether each of these pairs is within the tolerance, in their order."""
        count = max(1, _BATCH // max(_size(a), _size(b), 1))
        rtol, atol = self._tolerance.of(_short(a), _short(b))
        for start in range(0, len(unequal), count):
            batch = unequal[start : start + count]
            left, right = a.take(pairs.a[batch]), b.take(pairs.b[batch])
            for number, one, other in zip(batch.tolist(), left, right, strict=True):
                found = close_plain(one, other, rtol, atol)
                yield number, found is not None and found.same is not False

    def _add(
        self, side: int, series: Series, row: int, order: int, *, holds_values: bool = False, differs: bool = True
    ) -> None:
        """Add one value of a run."""
        part = series.take(np.array([row]))
        held = _held(part, holds_values=holds_values or _size(series) <= _SMALL, differs=differs)
        step, rank, call = int(part.steps[0]), int(part.ranks[0]), int(part.calls[0])
        variable = Variable(0, None, series.name, held, ("values",), run_site(series), 0, 0, step, rank)
        self._found[side].append(_PlacedVariable((step, rank, call, order), variable))


@dataclass(frozen=True, slots=True)
class _PlacedVariable:
    """A value with its place in the run: step, rank, call, and the order of the paths."""

    place: tuple[int, int, int, int]
    variable: Variable


def _series(run: Run, path: str) -> Series:
    (series,) = (found for found in run.find(path) if found.name == path)
    return series.latest()


def _have_equal_digests(a: Series, b: Series, pairs: _Pairs) -> Array:
    """Which pairs are equal, as their types, shapes and checksums say."""
    if a.dtype != b.dtype:
        return np.zeros(len(pairs.a), bool)
    one, other = a.take(pairs.a), b.take(pairs.b)
    is_equal: Array = one.digests == other.digests
    if a.shape is not None and a.shape == b.shape:
        return is_equal
    has_shape = [shape == own for shape, own in zip(one.shapes, other.shapes, strict=True)]
    return np.logical_and(is_equal, has_shape)


def _size(series: Series) -> int:
    """The bytes of the largest value."""
    if series.dtype == JSON:
        return 0
    shapes = [series.shape] if series.shape is not None else series.shapes
    return stored_type(series.dtype).itemsize * max(map(prod, shapes), default=0)


def _short(series: Series) -> str:
    if series.dtype == JSON:
        return "f64"
    return dtype_named(series.dtype).short


def _held(part: Series, *, holds_values: bool, differs: bool) -> Any:
    """What the comparison holds of a value: the value, its statistics, or the checksum of one that is equal."""
    if part.dtype == JSON:
        return next(iter(part))
    shape, short = part.shapes[0], dtype_named(part.dtype).short
    if holds_values:
        return TensorFacts(0, shape, short, "cpu", kept=next(iter(part)))
    if not differs:
        return TensorFacts(0, shape, short, "cpu", kept=f"xxh3 {part.digests[0].tobytes().hex()}")
    return TensorFacts(0, shape, short, "cpu", stats=_stats(next(iter(part))))


def _stats(value: Array) -> Stats:
    numbers = Numbers.of_tensors(value[np.newaxis])
    return Stats(
        count=value.size,
        min=_known(numbers.low),
        max=_known(numbers.high),
        mean=_known(numbers.mean),
        std=_known(numbers.std),
        nan=int(numbers.nan[0]),
        inf=int(numbers.inf[0]),
        zeros=int(numbers.zeros[0]),
    )


def _known(column: Array) -> float | None:
    """The number in a column of one row; None for NaN, which says that no element is finite."""
    number = float(column[0])
    if number == number:
        return number
    return None


def _trace(run: Run, found: list[_PlacedVariable]) -> Trace:
    events: list[Event] = []
    for number, placed in enumerate(sorted(found, key=lambda placed: placed.place)):
        placed.variable.id = number
        events.append(placed.variable)
    return Trace(events, about=run.about)
