"""Identical blocks and steps as one: what a row stands for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import groupby, pairwise

from insitu.trace.event import Call, Event, Mark, Variable
from insitu.trace.forest import Group, Node
from insitu.trace.path import relative

# Siblings, and beside them those of identical blocks: each list has the same structure.
Columns = list[list[Node]]
Arrange = Callable[[Columns, str], Columns]


@dataclass(slots=True, eq=False)
class Fold:
    """Nodes that one row stands for: the first `count` are siblings, the others their likes in identical blocks."""

    nodes: list[Node]
    count: int = 1
    near: int = 0  # how many lie in the same call, in other passes of a loop too

    @property
    def event(self) -> Event | Group:
        """The event of the first node."""
        return self.nodes[0].event

    def children(self, arrange: Arrange | None = None) -> list[Fold]:
        """What lies in these nodes, identical blocks folded; `arrange` may leave out some, or group them."""
        if not self.nodes[0].children:
            return []
        path = path_of(self.event)
        columns = [node.children for node in self.nodes]
        near = max(self.near, self.count) if isinstance(self.event, Group) else 1
        return _folded(arrange(columns, path) if arrange is not None else columns, path, near)


def fold(nodes: list[Node], base: Event | Group | None = None) -> list[Fold]:
    """Siblings with each run of identical ones as one: modules `h.0`, `h.1`, …, or one line of a loop run again."""
    return _folded([nodes], path_of(base))


def path_of(base: Event | Group | None) -> str:
    """The path from which the modules in something are named."""
    if isinstance(base, Call):
        return base.path
    return ""


def _folded(columns: Columns, path: str, near: int = 1) -> list[Fold]:
    return [
        Fold([node for nodes in columns for node in nodes[start:end]], end - start, near * (end - start))
        for start, end in identical_ranges(columns[0], path)
    ]


def identical_ranges(nodes: list[Node], path: str) -> list[tuple[int, int]]:
    """Where each run of identical siblings begins and ends."""
    if len(nodes) < 2:
        return [(0, 1)] * len(nodes)
    starts = [index for index in range(1, len(nodes)) if not _are_alike(nodes[index - 1], nodes[index], path)]
    return list(pairwise((0, *starts, len(nodes))))


def _are_alike(one: Node, other: Node, path: str) -> bool:
    return one.signature == other.signature and place(one.event, path) == place(other.event, path)


def place(event: Event | Group, base: str) -> Hashable:
    """What identical siblings must share to be folded: numbered modules their list, other calls their line."""
    if isinstance(event, Group):
        if event.kind == "expression":
            return place(event.first, base)
        return tuple([place(node.event, base) for node in event.nodes])
    if isinstance(event, Mark):
        return event.id
    if isinstance(event, Variable) or event.kind != "module":
        return event.site
    return tuple(["#" if part.isdigit() else part for part in relative(event.path, base).split(".")])


@dataclass(slots=True, eq=False)
class Steps:
    """Identical steps that follow each other, and what happened in each of them."""

    first: int
    last: int
    count: int
    folds: list[Fold]


def steps(roots: list[Node]) -> list[Steps]:
    """The roots by step, identical steps folded."""
    every = [list(nodes) for _, nodes in groupby(roots, key=_moment)]
    groups: list[list[list[Node]]] = []
    for nodes in every:
        if groups and _same(groups[-1][0], nodes):
            groups[-1].append(nodes)
        else:
            groups.append([nodes])
    return [_steps(alike) for alike in groups]


def _moment(node: Node) -> tuple[int, int]:
    return node.first.rank, node.first.step


def _same(one: list[Node], other: list[Node]) -> bool:
    alike = one[0].first.rank == other[0].first.rank and len(one) == len(other)
    return alike and all(a.signature == b.signature for a, b in zip(one, other, strict=True))


def _steps(alike: list[list[Node]]) -> Steps:
    return Steps(alike[0][0].first.step, alike[-1][0].first.step, len(alike), _folded(alike, ""))
