"""The variables of two runs that were compared: the curves of both, where they begin to differ, and by how much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from insitu.trace.curve import Array, Curve
from insitu.trace.diff import Diff, Difference
from insitu.trace.event import Variable
from insitu.trace.event_curves import event_curves, unit_of
from insitu.trace.variable_curves import VariableCurves

EQUAL = ("same", "close")


@dataclass(frozen=True, slots=True)
class ComparedVariable:
    """A variable of two runs; a run that does not have it has no curves.

    `first` is the first step that differs by more than the tolerance, None if no step does. `largest` is the largest
    relative difference of a step: that of the least, the mean or the largest number, as a part of the largest number.
    `place` is its place in the order of the model.
    """

    a: VariableCurves
    b: VariableCurves
    first: int | None = None
    largest: float = 0.0
    place: int = 0


def compared_variables(diff: Diff) -> list[ComparedVariable]:
    """The variables of both runs, those that differ most first; variables that do not differ in their order."""
    rows = [row for row in diff.differences if isinstance(row.a or row.b, Variable)]
    sides = [_variables(row.a for row in rows), _variables(row.b for row in rows)]
    unit = unit_of([*sides[0], *sides[1]])
    a, b = (event_curves(side, unit, diff.model) for side in sides)
    firsts = _first_steps(rows)
    pairs = _pairs(a, b, _partners(rows))
    found = [
        replace(_compared(one, other, _first_of(one.path, firsts)), place=place)
        for place, (one, other) in enumerate(pairs)
    ]
    return sorted(found, key=_rank)


def _pairs(
    a: list[VariableCurves], b: list[VariableCurves], partners: dict[str, str]
) -> list[tuple[VariableCurves, VariableCurves]]:
    """The variables of a with those of b; one that only one run has is beside one without a point."""
    others = {variable.path: variable for variable in b}
    names = [partners.get(variable.path, variable.path) for variable in a]
    found = [(variable, others.pop(name, _absent(variable))) for variable, name in zip(a, names, strict=True)]
    return [*found, *((_absent(other), other) for other in others.values())]


def _rank(compared: ComparedVariable) -> tuple[bool, float]:
    return compared.first is None, -compared.largest


def _variables(events: Iterable[object]) -> list[Variable]:
    return [event for event in events if isinstance(event, Variable)]


def _absent(variable: VariableCurves) -> VariableCurves:
    """A variable that a run does not have."""
    return VariableCurves(variable.path, variable.role)


def _partners(rows: list[Difference]) -> dict[str, str]:
    """The name in b of each variable that has another name there; of a statistic, that of its tensor."""
    found: dict[str, str] = {}
    for row in rows:
        if row.a is not None and row.b is not None and row.a.name != row.b.name:
            found[row.a.name] = row.b.name
            base, _, name = row.a.name.rpartition(".")
            other, _, same = row.b.name.rpartition(".")
            if name == same:
                found[base] = other
    return found


def _first_steps(rows: list[Difference]) -> dict[str, int]:
    """The first step at which each variable differs, by its name in both runs."""
    found: dict[str, int] = {}
    for row in rows:
        if row.status in EQUAL:
            continue
        for event in row.events:
            found[event.name] = min(found.get(event.name, event.step), event.step)
    return found


def _first_of(path: str, firsts: dict[str, int]) -> int | None:
    """The first step of a variable that differs, or of one of its statistics."""
    if path in firsts:
        return firsts[path]
    inside = [step for name, step in firsts.items() if name.rpartition(".")[0] == path]
    return min(inside, default=None)


def _compared(a: VariableCurves, b: VariableCurves, first: int | None) -> ComparedVariable:
    by_rank = {curve.rank: curve for curve in b.curves}
    pairs = [(curve, by_rank[curve.rank]) for curve in a.curves if curve.rank in by_rank]
    return ComparedVariable(a, b, first, max((_largest(*pair) for pair in pairs), default=0.0))


def _largest(a: Curve, b: Curve) -> float:
    """The largest relative difference of the steps that both have; a NaN in one run only is a difference of 1."""
    _, here, there = np.intersect1d(a.steps, b.steps, return_indices=True)
    one, other = a.numbers.part(here), b.numbers.part(there)
    if not len(here):
        return 0.0
    parts = [attrgetter(name) for name in ("low", "mean", "high")]
    with np.errstate(all="ignore"):
        apart = np.fmax.reduce([abs(part(one) - part(other)) for part in parts])
        size = np.fmax.reduce([abs(part(side)) for side in (one, other) for part in (parts[0], parts[2])])
        relative = np.where(size > 0, apart / size, 0.0)
    is_only_in_one = _has_nan(one.mean) != _has_nan(other.mean)
    return float(np.fmax.reduce(np.where(is_only_in_one, 1.0, np.nan_to_num(relative))))


def _has_nan(numbers: Array) -> Array:
    found: Array = np.isnan(numbers)
    return found
