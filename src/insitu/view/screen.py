"""Fold until it fits: which rows of a tree to open so that no more than so many lines are shown."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Hashable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import IO, Generic, TypeVar

from insitu.view.terminal import is_terminal

RowType = TypeVar("RowType", bound=Hashable)
# The rows that are shown inside a row, None for all rows; a row that is not in it is closed.
Opened = dict[RowType | None, list[RowType]]
# How much a row matters: the larger comes first.
Weight = tuple[float, ...]

MUST_OPEN = 2  # the first number of the weight of a row that is closed last
FEWEST = 3  # lines that it takes to open a row in part
USUAL_LINES = 50  # of a stream that is not a terminal
LEAST_LINES = 10
OTHER_LINES = 5  # for the first NaN, the footer, what is not shown, and the shell


def rows_on(file: IO[str]) -> int:
    """How many rows fit on the screen that a stream writes to."""
    return max(LEAST_LINES, _height(file) - OTHER_LINES)


def _height(file: IO[str]) -> int:
    """The lines of a terminal; a usual number for a stream that is not one."""
    if not is_terminal(file):
        return USUAL_LINES
    try:
        height = os.get_terminal_size(file.fileno()).lines
    except (OSError, ValueError, AttributeError):
        height = 0
    return height or shutil.get_terminal_size().lines


class Screen(Generic[RowType]):
    """Opens rows until the lines are used up, those that matter most first.

    Where the rows inside a row do not fit, the ones that matter most are shown; each series of others is one line.
    """

    def __init__(
        self, inside: Callable[[RowType], Sequence[RowType]], weight: Callable[[RowType], Weight], lines: int
    ) -> None:
        self._inside, self._weight = inside, weight
        self._left = lines
        self._opened: Opened[RowType] = {}
        self._waiting: list[tuple[Weight, int, RowType]] = []
        self._numbers = count()

    def fit(self, rows: Sequence[RowType]) -> Opened[RowType]:
        """The rows to show, and those inside them."""
        self._open(None, rows)
        while self._waiting and self._left > 0:
            _, _, row = heappop(self._waiting)
            inside = self._inside(row)
            if inside and self._has_room(row, inside):
                self._open(row, inside)
        return self._opened

    def _has_room(self, row: RowType, inside: Sequence[RowType]) -> bool:
        """Whether to open a row: all of it fits, or it matters more than by its time."""
        if len(inside) <= self._left:
            return True
        return self._weight(row)[0] > 0 and self._left >= FEWEST

    def _open(self, row: RowType | None, inside: Sequence[RowType]) -> None:
        room = self._left
        if any(self._weight(child)[0] >= MUST_OPEN for child in inside):  # which needs room, too
            room = max(FEWEST, room // 2)
        shown = _shown(inside, self._weight, room)
        self._opened[row] = shown
        self._left -= len(shown) + _gaps(inside, shown)
        for child in shown:
            order = tuple(-part for part in self._weight(child))
            heappush(self._waiting, (order, next(self._numbers), child))


def _shown(rows: Sequence[RowType], weight: Callable[[RowType], Weight], lines: int) -> list[RowType]:
    """The rows that fit, in order; of those that do not all fit the ones that matter most."""
    if len(rows) <= lines:
        return list(rows)
    chosen: set[RowType] = set()
    for row in sorted(rows, key=weight, reverse=True):
        more = {*chosen, row}
        if chosen and len(more) + _gaps(rows, more) > lines:
            break
        chosen = more
    return [row for row in rows if row in chosen]


def _gaps(rows: Sequence[RowType], shown: Sequence[RowType] | set[RowType]) -> int:
    """The number of series of rows that are not shown."""
    chosen = set(shown)
    hidden = [row not in chosen for row in rows]
    return sum(is_hidden and not before for is_hidden, before in zip(hidden, [False, *hidden], strict=False))
