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

    A step whose nodes are all hidden is left out.
    """
    return [_folded(list(alike)) for _, alike in groupby(filter(None, every), key=_structure)]


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
