"""Steps that are alike as one: the rows of each step, folded with those of the steps after it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from insitu.trace.event import Event
from insitu.trace.fold import Columns, Fold, fold_columns
from insitu.trace.forest import Group, Node, own_key


@dataclass(slots=True, eq=False)
class Steps:
    """Steps that are alike and follow each other, and the rows of each of them."""

    first: int
    last: int
    count: int
    folds: list[Fold]


def by_step(roots: list[Node]) -> list[list[Node]]:
    """The outermost nodes of each step of each rank."""
    return [list(nodes) for _, nodes in groupby(roots, key=_moment)]


def fold_steps(every: Iterable[list[Node]]) -> list[Steps]:
    """The nodes of each step, with those of steps that are alike and follow each other folded.

    A step whose nodes are all hidden is left out. Steps whose sizes grow by one from each to the next are alike, as
    the cache of keys and values does while a model generates tokens.
    """
    series: list[_Series] = []
    for structure, alike in groupby(filter(None, every), key=_structure):
        steps = list(alike)
        if not series or not series[-1].grows_to(structure, len(steps)):
            series.append(_Series())
        series[-1].add(structure, steps)
    return [_folded(each.steps) for each in series]


class _Series:
    """Steps that follow each other: all with one structure, or each a bit larger than the one before."""

    def __init__(self) -> None:
        self.steps: Columns = []
        self._structures: list[tuple[Hashable, ...]] = []

    def add(self, structure: tuple[Hashable, ...], steps: Columns) -> None:
        """Add steps of one structure."""
        self._structures.append(structure)
        self.steps += steps

    def grows_to(self, structure: tuple[Hashable, ...], count: int) -> bool:
        """Whether so many steps of this structure go on with the growth: each size is there once."""
        is_one_by_one = count == 1 and len(self.steps) == len(self._structures)
        return is_one_by_one and _grows(self._structures[-1], structure)


def _grows(one: Any, other: Any) -> bool:
    """Whether a structure is that of the step before, but for numbers that grew by one; its rank and calls are not."""
    if one[0] != other[0] or len(one) != len(other):
        return False
    return all(
        node[0] == later[0] and _is_next(node[1], later[1]) for node, later in zip(one[1:], other[1:], strict=True)
    )


def _is_next(one: Any, other: Any) -> bool:
    """Whether a key is the same as another one, but for numbers that grew by one."""
    waiting = [(one, other)]
    while waiting:
        one, other = waiting.pop()
        if one == other:
            continue
        if type(one) is not type(other):
            return False
        if isinstance(one, tuple) and len(one) == len(other):
            waiting += zip(one, other, strict=True)
        elif not isinstance(one, int) or other != one + 1:
            return False
    return True


def _moment(node: Node) -> tuple[int, int]:
    """The rank and the step of a node."""
    return node.first.rank, node.first.step


def _structure(nodes: list[Node]) -> tuple[Hashable, ...]:
    """What steps that are alike have in common: the rank, the signatures of their nodes, and shapes and arguments."""
    return (nodes[0].first.rank, *[(node.signature, _shown_key(node.event)) for node in nodes])


def _shown_key(event: Event | Group) -> Any:
    """The shapes and arguments that a row shows; the row of a group shows none."""
    if isinstance(event, Group):
        return None
    return own_key(event)


def _folded(alike: Columns) -> Steps:
    """Steps that are alike as one."""
    first, last = alike[0][0].first, alike[-1][0].first
    return Steps(first.step, last.step, len(alike), fold_columns(alike, ""))
