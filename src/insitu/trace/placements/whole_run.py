"""A run of several ranks as a run of one process: each value joined from those of the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from insitu.trace.compare.closeness import Tolerance
from insitu.trace.event import TensorFacts, Variable
from insitu.trace.kept_values import is_array
from insitu.trace.placements.joined_statistics import StatisticsJoiner
from insitu.trace.placements.joined_value import JoinedValue, JoinMethod
from insitu.trace.placements.joiner import Joiner
from insitu.trace.placements.part import LocalPart, ValueKey, content
from insitu.trace.placements.part_layout import Mesh, PartLayout, Shape
from insitu.trace.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class RankedRun:
    """The values of a run, the ranks that recorded some, and the layouts that they recorded, by path and rank."""

    trace: Trace
    world_size: int
    ranks: tuple[int, ...]
    layouts: Mapping[tuple[str, int], PartLayout] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTrace:
    """The trace that one process would have made, and how each value of it was joined, by the id of the variable."""

    trace: Trace
    ranks: tuple[int, ...]
    values: Mapping[int, JoinedValue]

    @property
    def counts(self) -> dict[JoinMethod, int]:
        """How many values were joined by each method."""
        return dict(Counter([value.method for value in self.values.values()]))


def join_run(run: RankedRun, whole: Trace, rename: Callable[[str], str], tolerance: Tolerance) -> JoinedTrace:
    """Join the values of the ranks; `rename` gives the paths of the whole run the names that this one has.

    The values are in the order of the whole run: ranks record gradients in an order of their own.
    """
    parts = _parts_by_key(run)
    wholes = {key: content(variable) for key, variable in _keys(whole, rename)}
    joiner = Joiner(tolerance, _meshes(run))
    statistics = StatisticsJoiner(parts, wholes)
    values: dict[int, JoinedValue] = {}
    variables: list[Any] = []
    for key in dict.fromkeys([*wholes, *parts]):
        if key not in parts:
            continue
        found = statistics.joined(key) or joiner.joined(key.path, parts[key], wholes.get(key))
        number = len(variables)
        values[number] = found
        variables.append(_variable(number, found))
    variables.sort(key=lambda variable: variable.step)
    return JoinedTrace(Trace(_renumbered(variables, values), about=run.trace.about), run.ranks, values)


def _renumbered(variables: list[Variable], values: dict[int, JoinedValue]) -> list[Any]:
    """The variables numbered in their order, as in every trace; `values` gets the new numbers."""
    found = [values[variable.id] for variable in variables]
    values.clear()
    for number, (variable, value) in enumerate(zip(variables, found, strict=True)):
        variable.id = number
        values[number] = value
    return variables


def _keys(trace: Trace, rename: Callable[[str], str] = str) -> Iterator[tuple[ValueKey, Variable]]:
    """The variables of a trace of one process, each with its key."""
    numbers: Counter[tuple[str, int, int]] = Counter()
    for event in trace.events:
        if isinstance(event, Variable):
            place = (event.name, event.step, event.rank)
            yield ValueKey(rename(event.name), event.step, numbers[place]), event
            numbers[place] += 1


def _parts_by_key(run: RankedRun) -> dict[ValueKey, list[LocalPart]]:
    """The parts of each value, in the order of the ranks."""
    found: dict[ValueKey, list[LocalPart]] = {}
    for key, variable in _keys(run.trace):
        layout = run.layouts.get((key.path, variable.rank))
        found.setdefault(key, []).append(LocalPart(variable.rank, variable, layout))
    for parts in found.values():
        parts.sort(key=lambda part: part.rank)
    return found


def _meshes(run: RankedRun) -> tuple[Shape, ...]:
    """The meshes of all ranks that the layouts of a run show, the most frequent first."""
    count = len(run.ranks)
    found = Counter([_grid(layout.mesh, count) for layout in run.layouts.values()])
    return tuple([grid for grid, _ in found.most_common() if grid])


def _grid(mesh: Mesh, count: int) -> Shape:
    """The mesh of all ranks that a mesh is a part of; () if this is not known.

    >>> _grid(Mesh((2,), (0, 1)), 4), _grid(Mesh((2,), (1, 3)), 4), _grid(Mesh((2, 2), (0, 1, 2, 3)), 4)
    ((2, 2), (2, 2), (2, 2))
    """
    size = len(mesh.ranks)
    if size == count:
        return mesh.shape
    if count % size:
        return ()
    if mesh.ranks[-1] - mesh.ranks[0] == size - 1:
        return (count // size, *mesh.shape)
    return (*mesh.shape, count // size)


def _variable(number: int, joined: JoinedValue) -> Variable:
    first = joined.parts[0].variable
    held: Any = joined.value
    if is_array(held) and isinstance(first.value, TensorFacts):
        held = replace(first.value, shape=tuple(held.shape), kept=held, stats=None, strides=None)
    return replace(first, id=number, value=held, rank=0, parent=None)
