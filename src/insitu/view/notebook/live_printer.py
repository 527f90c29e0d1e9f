"""The sink of `watch` in a notebook: shows events through a view, in one display for each cell."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable
from threading import get_ident

from insitu.ipython import running_shell, shows_html
from insitu.trace.event import Call, Event
from insitu.view.line import Line, View
from insitu.view.notebook.live_display import LiveDisplay, cell_displays
from insitu.view.notebook.live_rows import LiveRows, TextRows, TreeRows
from insitu.view.terminal import Terminal
from insitu.view.views import traits


def prints_to_notebook() -> bool:
    """Whether standard output is that of a notebook: not a terminal, and not redirected."""
    return shows_html(running_shell()) and type(sys.stdout).__module__.startswith("ipykernel.")


class LivePrinter:
    """A sink that shows events in the cell that runs. Printers of one place share the display of the cell."""

    def __init__(self, view: View, place: Hashable) -> None:
        self.view = view
        self._place: Hashable = place
        self._process = os.getpid()
        self._terminal = Terminal()
        self._rows: Callable[[], LiveRows] = TreeRows if traits(view).nested else TextRows
        if hasattr(view, "opened"):
            self.opened = self._opened
            self._place = (place, get_ident())  # its lines come one by one: those of other threads must not be between

    @property
    def _display(self) -> LiveDisplay:
        return cell_displays.at(self._place, self._rows)

    @property
    def _is_fork(self) -> bool:
        """Whether this is a child of the kernel, as a worker that loads data: it can print, and not display."""
        return os.getpid() != self._process

    def _show(self, lines: Iterable[Line], step: int = 0) -> None:
        if lines == ():  # most events make no line: be quick
            return
        if self._is_fork:
            self._terminal.write(lines)
        else:
            self._display.add(lines, step)

    def begin(self) -> None:
        """Show the head."""
        self._show(self.view.begin())

    def __call__(self, event: Event) -> None:
        self._show(self.view(event), event.step)

    def _opened(self, call: Call) -> None:
        self._show(self.view.opened(call), call.step)  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Show the lines that the view has held back, and the foot."""
        self._show(self.view.finish())
        self.flush()

    def flush(self) -> None:
        """Show what is there, at the latest when the cell ends."""
        if self._is_fork:
            self._terminal.flush()
        else:
            self._display.settle()
