"""Finds the forward call that a backward operator belongs to, by the numbers of autograd nodes.

`Tape.maker` finds it on a tape; this table also has calls that are no longer on one.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from insitu.trace.event import ModuleFacts

MOST = 200_000  # calls that are remembered: a live session goes on for ever
NEAR = 8  # how far nesting is looked through


class Forward(NamedTuple):
    """A call that made autograd nodes: their numbers, its id, the module it was made in."""

    nodes: range
    id: int
    module: ModuleFacts | None


class Forwards:
    """The calls of one thread that made autograd nodes, in the order they began."""

    def __init__(self) -> None:
        self._calls: list[Forward] = []
        self._firsts: list[int] = []

    def copy(self) -> Forwards:
        """The same calls, to which others can be added."""
        same = Forwards()
        same._calls, same._firsts = list(self._calls), list(self._firsts)
        return same

    def add(self, nodes: range, id: int, module: ModuleFacts | None) -> None:
        """A call made the nodes with these numbers."""
        if len(self._calls) >= MOST:
            del self._calls[: MOST // 2], self._firsts[: MOST // 2]
        self._calls.append(Forward(nodes, id, module))
        self._firsts.append(nodes.start)

    def find(self, node: int) -> Forward | None:
        """The innermost call that made a node; None for one made elsewhere, and for the gradients of leaves.

        >>> calls = Forwards()
        >>> calls.add(range(5, 7), 17, None)
        >>> calls.find(6).id, calls.find(7), calls.find(4)
        (17, None, None)
        """
        at = bisect_right(self._firsts, node)
        near = self._calls[max(0, at - NEAR) : at]
        return next((call for call in reversed(near) if node in call.nodes), None)
