"""The sink of `watch`: prints events through a view while the program runs."""

from __future__ import annotations

from insitu.trace.event import Call, Event
from insitu.view.line import View
from insitu.view.terminal import Terminal


class Printer:
    """A sink that prints through a view."""

    def __init__(self, view: View, terminal: Terminal) -> None:
        self.view = view
        self.terminal = terminal
        self._outermost: str | None = None
        if hasattr(view, "opened"):
            self.opened = self._opened

    def begin(self) -> None:
        """Print the head."""
        self.terminal.write(self.view.begin())

    def __call__(self, event: Event) -> None:
        self.terminal.write(self.view(event))

    def _opened(self, call: Call) -> None:
        """Print the head of a call. Another outermost function starts with columns of its own."""
        if call.parent is None and call.name != self._outermost:
            self._outermost = call.name
            self.terminal.forget_widths()
        self.terminal.write(self.view.opened(call))  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Print the lines that the view has held back, and the foot."""
        self.terminal.write(self.view.finish())
        self.flush()

    def flush(self) -> None:
        """Let a reader see all that was printed."""
        self.terminal.flush()
