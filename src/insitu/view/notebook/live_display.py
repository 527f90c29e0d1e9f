"""Output of a cell that grows while the cell runs: one display for each place that prints, and few messages.

Nothing is shown before the block ends, or a second has passed. Later changes are sent at most once a second, and at the
end of the cell. So a loop of a thousand blocks is one display.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from time import monotonic
from uuid import uuid4

from insitu.ipython import HTML, publish, running_shell
from insitu.view.line import Line
from insitu.view.notebook.forms import TEXT, Forms, cell, text_of
from insitu.view.notebook.live_rows import LiveRows

INTERVAL = 1.0  # seconds between two messages


class LiveDisplay:
    """The rows of one place in one cell, and what the front end knows of them."""

    def __init__(self, rows: LiveRows) -> None:
        self._rows = rows
        self._lock = threading.RLock()
        self._id = uuid4().hex
        self._is_shown = False
        self._has_news = False
        self._last = monotonic()

    def add(self, lines: Iterable[Line], step: int) -> None:
        """Add lines, and show them if it is time."""
        with self._lock:
            new = list(lines)
            if not new:
                return
            self._rows.add(new, step)
            self._has_news = True
            if self._is_due():
                self.show()

    def settle(self) -> None:
        """Show the rows of a block that has ended: at once if nothing is shown yet, else with the next message."""
        with self._lock:
            self._has_news |= self._rows.settle()
            if not self._is_shown or self._is_due():
                self.show()
            elif self._has_news:
                at_end_of_cell.add(self)

    def _is_due(self) -> bool:
        return monotonic() - self._last >= INTERVAL

    def show(self) -> None:
        """Send the rows, if the front end does not have them."""
        with self._lock:
            if not self._has_news:
                return
            publish(self._forms(), self._id, is_update=self._is_shown)
            self._is_shown, self._has_news, self._last = True, False, monotonic()

    def _forms(self) -> Forms:
        return {TEXT: text_of(self._rows.lines()), HTML: cell(self._rows.html())}


class EndOfCell:
    """Shows at the end of a cell the displays whose last rows were not due yet."""

    def __init__(self) -> None:
        self._waiting: list[LiveDisplay] = []

    def add(self, display: LiveDisplay) -> None:
        """Show a display at the end of this cell."""
        if display in self._waiting:
            return
        if not self._waiting:
            running_shell().events.register("post_execute", self._show)
        self._waiting.append(display)

    def _show(self) -> None:
        waiting, self._waiting = self._waiting, []
        with suppress(ValueError):  # somebody has removed it
            running_shell().events.unregister("post_execute", self._show)
        for display in waiting:
            display.show()


at_end_of_cell = EndOfCell()


class CellDisplays:
    """The displays of the cell that runs, by the place that prints."""

    def __init__(self) -> None:
        self._cell: object = None
        self._by_place: dict[Hashable, LiveDisplay] = {}

    def at(self, place: Hashable, rows: Callable[[], LiveRows]) -> LiveDisplay:
        """The display of a place in this cell; a new one for the first block there."""
        cell = running_shell().execution_count
        if cell != self._cell:
            self._cell = cell
            self._by_place.clear()
        if place not in self._by_place:
            self._by_place[place] = LiveDisplay(rows())
        return self._by_place[place]


cell_displays = CellDisplays()
