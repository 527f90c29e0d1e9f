"""Lines of styled text: the one form between a view and the terminal, the notebook or the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from insitu.trace.event import Call, Event

# A piece of text and its ink: "" or a name of `insitu.view.terminal.INKS`. A plain pair, because views make millions.
Span = tuple[str, str]
DETAIL = "detail"  # the ink of a part of a name that a reader can do without: it has no colour, and is cut first


class TimeSpan(NamedTuple):
    """A span that is a time: lines that differ only in it are alike."""

    text: str
    ink: str


@dataclass(slots=True, frozen=True)
class Column:
    """A column of cells. A narrow terminal drops columns with a low `drop` first, and never those without one.

    The cells of a column with `narrow` may be cut, but not below that width as long as a column can be dropped instead;
    with `keeps_end`, they lose their beginning. A column that `is_spare` is shown only where the width of the terminal
    is known and leaves room for it.
    """

    name: str
    right: bool = False
    drop: int | None = None
    narrow: int | None = None
    keeps_end: bool = False
    is_spare: bool = False


@dataclass(slots=True)
class Line:
    """One line: spans of text and, for a row of a table, one span for each column.

    A line with None for columns is written in full; a line with `()` is cut at the edge of the terminal. A line of a
    tree has a `depth`; below the first level, its first span is the guide that is drawn before it.

    >>> str(Line((("● ", "purple"), ("fc", ""))))
    '● fc'
    """

    spans: tuple[Span, ...]
    cells: tuple[Span, ...] = ()
    columns: tuple[Column, ...] | None = None
    depth: int = 0

    @property
    def guide(self) -> tuple[Span, ...]:
        """The guide that is drawn before the line; none on the first level."""
        if self.depth:
            return self.spans[:1]
        return ()

    @property
    def body(self) -> tuple[Span, ...]:
        """The spans without the guide."""
        if self.depth:
            return self.spans[1:]
        return self.spans

    def __str__(self) -> str:
        return "  ".join(filter(None, ["".join([text for text, _ in self.spans]), *(text for text, _ in self.cells)]))


@dataclass(slots=True, frozen=True)
class ViewTraits:
    """The facts that a view declares in its class attribute `traits`; a view without one has these defaults.

    `level` is what `watch` records for the view; with `closely`, it keeps the values of small tensors and the
    statistics of large ones. `nested` says that its lines have a depth, by which a notebook folds them. `flags` are the
    view's options on the command line, each with its help. `replay` are the options for a trace that is complete,
    `unlimited` those for a stream whose lines have no limit. `if_empty` is printed if the view has no line for a trace.
    """

    level: str = "functions"
    closely: bool = False
    nested: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    replay: Mapping[str, Any] = field(default_factory=dict)
    unlimited: Mapping[str, Any] = field(default_factory=dict)
    if_empty: str = ""


class View(Protocol):
    """Turns events, each passed when it is complete, into lines."""

    def begin(self) -> Iterable[Line]:
        """Return the lines before the first event."""
        ...

    def __call__(self, event: Event) -> Iterable[Line]:
        """Return the lines that this event makes ready."""
        ...

    def finish(self) -> Iterable[Line]:
        """Return the lines after the last event."""
        ...


class CountingView(View, Protocol):
    """A view that shows sums: it also receives the events that are not shown, so that sums cover the whole trace."""

    def left_out(self, event: Event) -> None:
        """Count an event that makes no line."""
        ...


class OpeningView(View, Protocol):
    """A view that also shows the call of a watched function when it begins, before everything inside it."""

    def opened(self, call: Call) -> Iterable[Line]:
        """Return the lines of a call that begins; its arguments and sites are known, its result and time are not."""
        ...
