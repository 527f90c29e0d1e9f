"""Folding: identical blocks and identical steps as one row."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from operator import attrgetter

from insitu.trace.event import Call, Event, Mark, Variable
from insitu.trace.forest import Group, Node
from insitu.trace.path import relative

# Siblings, and beside them those of identical blocks: each list has the same structure.
Columns = list[list[Node]]
Arrange = Callable[[Columns, str], Columns]


@dataclass(slots=True, eq=False)
class Fold:
    """The nodes of one row: the first `count` are siblings, the others are the same nodes of identical blocks."""

    nodes: list[Node]
    count: int = 1
    near: int = 0  # how many are inside the same call, those in other passes of a loop included

    @property
    def event(self) -> Event | Group:
        """The event of the first node."""
        return self.nodes[0].event

    def children(self, arrange: Arrange | None = None) -> list[Fold]:
        """The nodes inside these nodes, identical blocks folded; `arrange` may leave out some, or group them."""
        if not self.nodes[0].children:
            return []
        path = path_of(self.event)
        columns = [node.children for node in self.nodes]
        if arrange is not None:
            columns = arrange(columns, path)
        if isinstance(self.event, Group):
            return _folds(columns, path, near=max(self.near, self.count))
        return _folds(columns, path)


def fold(nodes: list[Node], base: Event | Group | None = None) -> list[Fold]:
    """Siblings with each run of identical ones as one: modules `h.0`, `h.1`, …, or one line of a loop run again."""
    return _folds([nodes], path_of(base))


def path_of(base: Event | Group | None) -> str:
    """The path that the names of modules inside an event leave out."""
    if isinstance(base, Call):
        return base.path
    return ""


def _folds(columns: Columns, path: str, near: int = 1) -> list[Fold]:
    found = []
    for start, end in identical_ranges(columns[0], path):
        nodes = list(chain.from_iterable([siblings[start:end] for siblings in columns]))
        found.append(Fold(nodes, end - start, near * (end - start)))
    return found


def identical_ranges(nodes: list[Node], path: str) -> list[tuple[int, int]]:
    """The first and the last index of each series of identical siblings."""
    if len(nodes) < 2:
        return [(0, 1)] * len(nodes)
    starts = [index for index, pair in enumerate(pairwise(nodes), 1) if not _are_identical(*pair, path)]
    return list(pairwise((0, *starts, len(nodes))))


def _are_identical(one: Node, other: Node, path: str) -> bool:
    return one.signature == other.signature and place(one.event, path) == place(other.event, path)


def place(event: Event | Group, base: str) -> Hashable:
    """The place that siblings must share to be folded: numbered modules their list, other calls their line."""
    if isinstance(event, Group):
        return _place_of_group(event, base)
    if isinstance(event, Mark):
        return event.id
    if isinstance(event, Variable) or event.kind != "module":
        return event.site
    return tuple(map(_without_number, relative(event.path, base).split(".")))


def _place_of_group(group: Group, base: str) -> Hashable:
    if group.kind == "expression":
        return place(group.first, base)
    return tuple([place(node.event, base) for node in group.nodes])


def _without_number(part: str) -> str:
    if part.isdigit():
        return "#"
    return part


@dataclass(slots=True, eq=False)
class Steps:
    """Identical steps that follow each other, and the rows of each of them."""

    first: int
    last: int
    count: int
    folds: list[Fold]


def steps(roots: list[Node]) -> list[Steps]:
    """The roots by step, identical steps folded."""
    every = [list(nodes) for _, nodes in groupby(roots, key=_moment)]
    return [_steps(list(identical)) for _, identical in groupby(every, key=_structure)]


def _moment(node: Node) -> tuple[int, int]:
    return node.first.rank, node.first.step


def _structure(nodes: list[Node]) -> tuple[Hashable, ...]:
    """What identical steps have in common: the rank, and the signatures of their nodes."""
    return (nodes[0].first.rank, *map(attrgetter("signature"), nodes))


def _steps(identical: Columns) -> Steps:
    first, last = identical[0][0].first, identical[-1][0].first
    return Steps(first.step, last.step, len(identical), _folds(identical, ""))
