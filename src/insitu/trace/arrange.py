"""Siblings in groups: by the source where it is known, else by what is repeated."""

from __future__ import annotations

from insitu.trace.bundle import Entry, bundled
from insitu.trace.event import Call, Event, Mark, Site
from insitu.trace.flat_walk import FlatWalk
from insitu.trace.fold import Columns, path_of
from insitu.trace.forest import Forest, Group, Node
from insitu.trace.loops import group_repetitions
from insitu.trace.place import Position
from insitu.trace.program_walk import ProgramWalk


def arrange(columns: Columns, around: Event | Group | None, forest: Forest) -> Columns:
    """Siblings, and beside them those of blocks that are alike, with groups in them.

    The calls of a program, which no call is around, are grouped by the lines of the user; inside a call, only by loops.
    """
    first = columns[0]
    if len(first) < 2:
        return columns
    positions = _positions(first, around, forest)
    if any(position.places for position in positions):
        entries = _entries(first, positions, is_program=around is None)
        columns = [bundled(entries, siblings, forest) for siblings in columns]
    if all(position.is_known for position in positions):
        return columns
    return group_repetitions(columns, path_of(around), forest)


def _positions(nodes: list[Node], around: Event | Group | None, forest: Forest) -> list[Position]:
    """Where each node is in the source, as seen from the call around them."""
    base = around.site if isinstance(around, Call) else None
    return [forest.places.position(_site(node), base) for node in nodes]


def _site(node: Node) -> Site | None:
    """The site of a node; a mark has none, since nobody wrote it."""
    event = node.first
    if isinstance(event, Mark):
        return None
    return event.site


def _entries(nodes: list[Node], positions: list[Position], *, is_program: bool) -> list[Entry]:
    """The entries of each thread, one thread after the other."""
    threads: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        threads.setdefault(node.first.thread, []).append(index)
    entries: list[Entry] = []
    for indices in threads.values():
        walk = ProgramWalk(nodes) if is_program else FlatWalk(nodes)
        for index in indices:
            walk.add(index, positions[index])
        walk.finish()
        entries += walk.entries
    return entries
