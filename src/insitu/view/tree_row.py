"""A row of the tree before it is text: what it stands for, and what says whether to open it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from insitu.trace.event import Call, Event
from insitu.trace.fold import Fold
from insitu.trace.forest import BACKWARD, MODEL, ODD, Group, Node, time_of
from insitu.view.line import Span
from insitu.view.screen import MUST_OPEN, Weight


@dataclass(eq=False)
class TreeRow:
    """A row for calls that are alike, or for a step, which has only a `title` and the rows inside it.

    `around` is the innermost call around it. One that `is_trained` is beside a backward pass, and calls a model.
    """

    item: Fold | None
    around: Call | None = None
    title: tuple[Span, ...] = ()
    folds: tuple[Fold, ...] = ()
    is_trained: bool = False
    inside: list[TreeRow] | None = None  # once they were asked for

    @property
    def event(self) -> Event | Group | None:
        """The first event or group of the row."""
        if self.item is None:
            return None
        return self.item.event

    @property
    def nodes(self) -> list[Node]:
        """All nodes of the row."""
        if self.item is not None:
            return self.item.nodes
        return [node for item in self.folds for node in item.nodes]

    @cached_property
    def marks(self) -> int:
        """The marks of all nodes."""
        found = 0
        for node in self.nodes:
            found |= node.marks
        return found

    @property
    def is_backward(self) -> bool:
        """Whether it is a call that runs a backward pass."""
        return isinstance(self.event, Call) and bool(self.marks & BACKWARD)

    @cached_property
    def weight(self) -> Weight:
        """What to open first: the way to what went wrong, the loop that trains, its model, then what takes longest."""
        time = sum(time_of(node.event) or 0 for node in self.nodes)
        if self.marks & ODD:
            return (MUST_OPEN + 1, time)
        if self.marks & BACKWARD and not self.is_backward:
            return (MUST_OPEN, time)
        return (int(self.is_trained or self.is_backward), time)

    @property
    def calls(self) -> int:
        """The number of outermost calls of the row."""
        return sum(node.event.calls if isinstance(node.event, Group) else 1 for node in self.nodes)

    def holds(self, ids: set[int]) -> bool:
        """Whether one of these calls, which raised, is an outermost call of the row."""
        waiting = list(self.nodes)
        while waiting:
            node = waiting.pop()
            if not node.marks & ODD:
                continue
            if isinstance(node.event, Group):
                waiting += node.children
            elif node.event.id in ids:
                return True
        return False


def note_training(rows: list[TreeRow]) -> None:
    """Note which of several rows beside each other call the model that is trained there."""
    if any(row.is_backward for row in rows):
        for row in rows:
            row.is_trained = bool(row.marks & MODEL)


@dataclass(eq=False)
class Gap:
    """Rows that are not shown."""

    rows: list[TreeRow]

    @property
    def calls(self) -> int:
        """The number of their outermost calls."""
        return sum(row.calls for row in self.rows)

    @property
    def times(self) -> list[int]:
        """The times of all their calls and groups."""
        times = [time_of(node.event) for row in self.rows for node in row.nodes]
        return [time for time in times if time is not None]


def with_gaps(rows: list[TreeRow], shown: list[TreeRow]) -> list[TreeRow | Gap]:
    """The rows that are shown, and a gap for each series of others."""
    chosen = set(shown)
    found: list[TreeRow | Gap] = []
    for row in rows:
        if row in chosen:
            found.append(row)
        elif found and isinstance(found[-1], Gap):
            found[-1].rows.append(row)
        else:
            found.append(Gap([row]))
    return found
