"""Lines on a stream: colour, width, columns, and plain ASCII where nothing else can be written."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter
from typing import IO
from unicodedata import east_asian_width

from insitu.view.cutter import Cutter, Places
from insitu.view.layout import TableWidths, lay_out, texts_of
from insitu.view.line import DETAIL, Column, Line, Span

INKS = {
    **{"purple": "\033[95m", "cyan": "\033[96m", "teal": "\033[36m", "blue": "\033[94m", "green": "\033[92m"},
    **{"yellow": "\033[93m", "red": "\033[91m", "orange": "\033[33m", "grey": "\033[90m"},
    **{"bold": "\033[1m", "dim": "\033[2m", DETAIL: "", "": ""},
}
RESET = "\033[0m"
CHUNK = 4096  # lines that are laid out and written at a time
SIGNS = {
    **{"●": "*", "┌": ".", "├": "|", "└": "`", "│": "|", "─": "-", "×": "x", "→": "->", "…": "...", "✗": "!", "µ": "u"},
    **{"⬇": "v", "\ufe0f": "", "┬": "+", "╰": "`", "▸": ">", "Δ": "d", "–": "-", "≈": "~", "·": "."},
    **{"Σ": "sum", "≥": ">=", "←": "<-"},
    **dict(zip("▁▂▃▄▅▆▇█", "_,-:=+*#", strict=True)),
}
ASCII = str.maketrans(SIGNS)

# The signs that the views draw with are between these two ranges.
MAYBE_WIDE = re.compile("[\u1100-\u1fff\u2e80-\U0010ffff]")


class Terminal:
    """Writes lines to a stream, by default to whatever `sys.stdout` is at that moment.

    Colour: the argument, else NO_COLOR, else FORCE_COLOR, else whether the stream is a terminal. A stream that is
    closed or broken is left alone: the program that is traced goes on.

    >>> Terminal(color=False).write([Line((("● ", "purple"), ("fc", "")))])
    ● fc
    """

    def __init__(self, file: IO[str] | None = None, color: bool | None = None, width: int | None = None) -> None:
        self._file = file
        self._color = color
        self._width = width
        self._broken: IO[str] | None = None
        self._error: Exception | None = None
        self._tables: dict[tuple[Column, ...], TableWidths] = {}

    def write(self, lines: Iterable[Line]) -> None:
        """Write the lines."""
        if lines == ():  # most events make no line: be quick
            return
        file = self._stream()
        if file is None:
            return
        texts: list[str] = []
        for text in self._texts(lines, file):
            texts.append(text)
            if len(texts) == CHUNK:
                self._put(texts, file)
                texts.clear()
        if texts:
            self._put(texts, file)

    def _texts(self, lines: Iterable[Line], file: IO[str]) -> Iterator[str]:
        more = "…"
        if needs_ascii(getattr(file, "encoding", None)):
            lines = map(_in_ascii, lines)
            more = SIGNS[more]
        join = self._joiner(file)
        for columns, block in groupby(lines, key=attrgetter("columns")):
            yield from map(join, self._rows(columns, block, file, more))

    def _joiner(self, file: IO[str]) -> Callable[[Sequence[Span]], str]:
        """The function that makes a text of spans, with colour or without."""
        color = self._color
        if color is None:
            color = wants_color(file)
        if color:
            return _painted
        return _unpainted

    def _rows(
        self, columns: tuple[Column, ...] | None, lines: Iterator[Line], file: IO[str], more: str
    ) -> Iterator[Sequence[Span]]:
        """The rows of a table, laid out; widths only grow, so that what is written later still lines up."""
        if columns is None:
            yield from map(attrgetter("spans"), lines)
            return
        if not columns:
            room = self._room(file)
            yield from (_within(line.spans, room, more) for line in lines)
            return
        table = self._tables.get(columns)
        if table is None:
            table = self._tables[columns] = TableWidths(columns)
        while rows := list(islice(lines, CHUNK)):
            places = _measure_for(rows)
            room = self._room(file)
            table.add(rows, places, is_limited=room is not None)
            layout, cutter = table.layout(room), Cutter(places, more)
            for row in rows:
                yield lay_out(row, layout, cutter)

    def _room(self, file: IO[str]) -> int | None:
        if self._width is not None:
            return self._width
        return terminal_width(file)

    def forget_widths(self) -> None:
        """Begin a table whose columns need not line up with the lines written before."""
        self._tables.clear()

    def flush(self) -> None:
        """Let a reader of the stream see all that was written."""
        file = self._stream()
        if file is None:
            return
        with suppress(OSError, ValueError, AttributeError):
            file.flush()

    def _stream(self) -> IO[str] | None:
        """The stream to write to; None if it is broken, or if the program has no standard output."""
        file = self._file
        if file is None:
            file = sys.stdout
        if file is self._broken:
            return None
        return file

    def _put(self, texts: list[str], file: IO[str]) -> None:
        text = "\n".join(texts) + "\n"
        try:
            try:
                file.write(text)
            except UnicodeEncodeError:
                encoding = getattr(file, "encoding", None) or "ascii"
                file.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except (OSError, ValueError) as error:  # a closed pipe, a full disk, a closed file
            self._broken, self._error = file, error


def write_all(
    lines: Iterable[Line], file: IO[str] | None = None, color: bool | None = None, width: int | None = None
) -> None:
    """Write lines; raise the error of a stream that does not take them all."""
    terminal = Terminal(file, color, width)
    terminal.write(lines)
    if terminal._error is not None:
        raise terminal._error


def wants_color(file: IO[str]) -> bool:
    """Whether to colour the text on this stream, where the user has not decided."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return is_terminal(file) and os.environ.get("TERM") != "dumb"


def is_terminal(file: IO[str]) -> bool:
    """Whether the stream is a terminal; a closed or odd one is not."""
    try:
        return file.isatty()
    except (AttributeError, ValueError, OSError):
        return False


def terminal_width(file: IO[str]) -> int | None:
    """The width of the terminal, from COLUMNS or from the terminal itself; None for a stream that is not a terminal."""
    if not is_terminal(file):
        return None
    if os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return _own_width(file) or shutil.get_terminal_size().columns


def _own_width(file: IO[str]) -> int:
    """The width that the terminal of this stream reports, 0 if it does not; shutil asks that of stdout only."""
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(file.fileno()).columns
    return 0


@lru_cache(maxsize=16)
def needs_ascii(encoding: str | None) -> bool:
    """Whether the stream cannot encode the signs that the views draw with."""
    try:
        "".join(SIGNS).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def _within(spans: tuple[Span, ...], room: int | None, more: str) -> Sequence[Span]:
    """The spans, cut if they are longer than the terminal is wide."""
    if room is None:
        return spans
    return Cutter(places_of, more).spans(spans, room)


def places_of(text: str) -> int:
    """How many places of a line the terminal needs for a text.

    >>> places_of("shape"), places_of("形状")
    (5, 4)
    """
    wide = [char for char in text if east_asian_width(char) in "WF"]
    return len(text) + len(wide)


def _measure_for(rows: list[Line]) -> Places:
    """The quickest function that gives the width of each text in the rows."""
    if _has_wide(rows):
        return places_of
    return len


def _has_wide(rows: list[Line]) -> bool:
    """Whether one of the rows may need more places than it has characters; one search is quicker than many."""
    text = texts_of(rows)
    if text.isascii():
        return False
    return MAYBE_WIDE.search(text) is not None


def _in_ascii(line: Line) -> Line:
    return Line(_ascii_spans(line.spans), _ascii_spans(line.cells), line.columns, line.depth)


def _ascii_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    return tuple((text.translate(ASCII), ink) for text, ink in spans)


def _painted(spans: Sequence[Span]) -> str:
    texts: list[str] = []
    for text, ink in spans:
        code = INKS[ink]
        if code and text:
            texts.append(f"{code}{text}{RESET}")
        else:
            texts.append(text)
    return "".join(texts)


def _unpainted(spans: Sequence[Span]) -> str:
    return "".join([text for text, _ in spans])
