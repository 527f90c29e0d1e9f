"""Lines on a stream: colour, width, columns, and plain ASCII where nothing else can be written."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import IO, NamedTuple
from unicodedata import east_asian_width

from insitu.view.line import Column, Line, Span

INKS = {
    **{"purple": "\033[95m", "cyan": "\033[96m", "teal": "\033[36m", "blue": "\033[94m", "green": "\033[92m"},
    **{"yellow": "\033[93m", "red": "\033[91m", "orange": "\033[33m", "grey": "\033[90m"},
    **{"bold": "\033[1m", "dim": "\033[2m"},
}
RESET = "\033[0m"
GAP = 2
FEWEST = 8  # characters of a name that are left when it is cut
MOST_OUTPUT = 24  # characters of the first column where the terminal is narrow
CHUNK = 4096  # lines that are laid out and written at a time
SIGNS = {
    **{"●": "*", "┌": ".", "├": "|", "└": "`", "│": "|", "─": "-", "×": "x", "→": "->", "…": "...", "✗": "!", "µ": "u"},
    **{"⬇": "v", "\ufe0f": "", "┬": "+", "╰": "`", "▸": ">", "Δ": "d", "–": "-", "≈": "~", "·": "."},
    **{"Σ": "sum", "≥": ">="},
    **dict(zip("▁▂▃▄▅▆▇█", "_,-:=+*#", strict=True)),
}
ASCII = str.maketrans(SIGNS)

# The signs that the views draw with are between these two ranges.
MAYBE_WIDE = re.compile("[\u1100-\u1fff\u2e80-\U0010ffff]")
Places = Callable[[str], int]


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
        self._widths: dict[tuple[Column, ...], list[int]] = {}

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
        widths = self._widths.setdefault(columns, [0] * (1 + len(columns)))
        while rows := list(islice(lines, CHUNK)):
            places = _measure_for(rows)
            _measure(rows, widths, places)
            first, fits = fit_columns(columns, widths, self._room(file))
            for row in rows:
                yield _lay_out(row, first, fits, places, more)

    def _room(self, file: IO[str]) -> int | None:
        if self._width is not None:
            return self._width
        return terminal_width(file)

    def forget_widths(self) -> None:
        """Begin a table whose columns need not line up with the lines written before."""
        self._widths.clear()

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


class Fit(NamedTuple):
    """A column that fits: its place, its width, and whether its cells are flush right."""

    place: int
    width: int
    right: bool


def fit_columns(columns: tuple[Column, ...], widths: list[int], room: int | None) -> tuple[int, list[Fit]]:
    """The width of the text, and the columns that fit into the room beside it."""
    fits = [Fit(place, width, columns[place].right) for place, width in enumerate(widths[1:]) if width]
    if room is None:
        return widths[0], fits
    if widths[1]:
        fits[0] = fits[0]._replace(width=min(fits[0].width, max(MOST_OUTPUT, room // 4)))
    for leaver in _leavers(columns):
        if widths[0] + _total(fits) <= room:
            break
        fits = [fit for fit in fits if fit.place != leaver]
    return min(widths[0], max(FEWEST, room - _total(fits))), fits


def _leavers(columns: tuple[Column, ...]) -> list[int]:
    """The places of the columns that may be dropped, the first to drop first."""
    drops = [(column.drop, place) for place, column in enumerate(columns) if column.drop is not None]
    return [place for _, place in sorted(drops)]


def _total(fits: list[Fit]) -> int:
    """The width of the columns, with the gaps before them."""
    return sum(GAP + fit.width for fit in fits)


def _measure(rows: list[Line], widths: list[int], places: Places) -> None:
    """Widen the widths to what the rows need; a line without cells has the room to itself."""
    for row in rows:
        if not row.cells:
            continue
        length = 0  # a loop is quicker here than a sum, and there is one for each row
        for text, _ in row.spans:
            length += places(text)
        if length > widths[0]:
            widths[0] = length
        for index, (text, _) in enumerate(row.cells, 1):
            length = places(text)
            if length > widths[index]:
                widths[index] = length


def _length(spans: Sequence[Span], places: Places) -> int:
    return sum([places(text) for text, _ in spans])


def _lay_out(row: Line, first: int, fits: list[Fit], places: Places, more: str) -> Sequence[Span]:
    """The row with blanks between its cells and none at its end."""
    if not row.cells:
        return row.spans
    length = 0
    for text, _ in row.spans:
        length += places(text)
    blank = first - length
    spans = list(row.spans)
    if length > first:
        blank = 0
        spans = _cut(row.spans, first, places, more)
    for index, width, right in fits:
        text, ink = row.cells[index]
        if not text:
            blank += GAP + width
            continue
        if places(text) > width:
            ((text, _),) = _cut(((text, ink),), width, places, more)
        before = blank + GAP
        blank = width - places(text)
        if right:
            before += blank
            blank = 0
        spans.append((" " * before + text, ink))
    return spans


def _within(spans: tuple[Span, ...], room: int | None, more: str) -> Sequence[Span]:
    """The spans, cut if they are longer than the terminal is wide."""
    if room is None:
        return spans
    if _length(spans, places_of) <= room:
        return spans
    return _cut(spans, room, places_of, more)


def _cut(spans: tuple[Span, ...], length: int, places: Places, more: str) -> list[Span]:
    """The spans cut to a length, with a sign at the end that there is more."""
    kept: list[Span] = []
    room = max(0, length - len(more))
    for text, ink in spans:
        if places(text) > room:
            text = text[:room]
            while places(text) > room:
                text = text[:-1]
            return [*kept, (text + more, ink)]
        kept.append((text, ink))
        room -= places(text)
    return kept


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
    text = "".join([text for row in rows for text, _ in chain(row.spans, row.cells)])
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
        if ink and text:
            texts.append(f"{INKS[ink]}{text}{RESET}")
        else:
            texts.append(text)
    return "".join(texts)


def _unpainted(spans: Sequence[Span]) -> str:
    return "".join([text for text, _ in spans])
