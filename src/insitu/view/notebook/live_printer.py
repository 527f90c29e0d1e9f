"""The sink of `watch` in a notebook: shows events through a view, in one display for each cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable

from insitu.ipython import running_shell, shows_html
from insitu.trace.event import Call, Event
from insitu.view.line import View
from insitu.view.notebook.live_display import LiveDisplay, cell_displays
from insitu.view.notebook.live_rows import LiveRows, TextRows, TreeRows
from insitu.view.views import traits


def prints_to_notebook() -> bool:
    """Whether standard output is that of a notebook: not a terminal, and not redirected."""
    return shows_html(running_shell()) and type(sys.stdout).__module__.startswith("ipykernel.")


class LivePrinter:
    """A sink that shows events in the cell that runs. Printers of one place share the display of the cell."""

    def __init__(self, view: View, place: Hashable) -> None:
        self.view = view
        self._place = place
        self._rows: Callable[[], LiveRows] = TreeRows if traits(view).nested else TextRows
        if hasattr(view, "opened"):
            self.opened = self._opened

    @property
    def _display(self) -> LiveDisplay:
        return cell_displays.at(self._place, self._rows)

    def begin(self) -> None:
        """Show the head."""
        self._display.add(self.view.begin(), 0)

    def __call__(self, event: Event) -> None:
        lines = self.view(event)
        if lines != ():  # most events make no line: be quick
            self._display.add(lines, event.step)

    def _opened(self, call: Call) -> None:
        self._display.add(self.view.opened(call), call.step)  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Show the lines that the view has held back, and the foot."""
        self._display.add(self.view.finish(), 0)
        self.flush()

    def flush(self) -> None:
        """Show what is there, at the latest when the cell ends."""
        self._display.settle()
