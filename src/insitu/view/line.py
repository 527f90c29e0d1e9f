"""Lines of styled text: the one form between a view and the terminal or the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from insitu.trace.event import Call, Event

# A piece of text and its ink: "" or a name of `insitu.view.terminal.INKS`. A plain pair, because views make millions.
Span = tuple[str, str]


@dataclass(slots=True, frozen=True)
class Column:
    """A column of cells; those with a lower `drop` leave a narrow terminal first, those with none never."""

    name: str
    right: bool = False
    drop: int | None = None


@dataclass(slots=True)
class Line:
    """One line: spans of text and, where it is a row of a table, one span for each column.

    A line that stands alone, with None for columns, is as long as it is; one with `()` is cut where the terminal ends.

    >>> str(Line((("● ", "purple"), ("fc", ""))))
    '● fc'
    """

    spans: tuple[Span, ...]
    cells: tuple[Span, ...] = ()
    columns: tuple[Column, ...] | None = None

    def __str__(self) -> str:
        return "  ".join(filter(None, ["".join([text for text, _ in self.spans]), *(text for text, _ in self.cells)]))


class View(Protocol):
    """Turns events, each given when it is complete, into lines."""

    def begin(self) -> Iterable[Line]:
        """The lines that stand before the first event."""
        ...

    def __call__(self, event: Event) -> Iterable[Line]:
        """The lines that this event makes ready."""
        ...

    def finish(self) -> Iterable[Line]:
        """The lines that stand after the last event."""
        ...


class CountingView(View, Protocol):
    """A view that shows sums: it is also given what is left out, so that they are those of the whole."""

    def left_out(self, event: Event) -> None:
        """Count an event that makes no line."""
        ...


class OpeningView(View, Protocol):
    """A view that also shows the call of a watched function when it begins, before all that lies in it."""

    def opened(self, call: Call) -> Iterable[Line]:
        """The lines of a call that begins; its arguments and places are known, its result and time are not."""
        ...
