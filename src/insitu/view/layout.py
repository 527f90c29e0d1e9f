"""Rows of a table in a terminal that may be too narrow for them: which columns are shown, how wide, and what is cut.

What a reader needs most stays longest. One long cell does not cost all rows a column: where the rows do not fit, the
cells that are longer than nine of ten others are cut first. Then columns go, in the order that they declare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from insitu.view.cutter import Cutter, Places, shorten
from insitu.view.line import Column, Line, Span

GAP = 2
TYPICAL = 0.9  # the share of the cells that are not cut first
MOST_NAME = 0.45  # of the room, where that is too small
NARROW_NAME = 36
NAME = Column("name", narrow=NARROW_NAME)


class Fit(NamedTuple):
    """A column that fits: its place among the cells, its width, and how its cells are written."""

    place: int
    width: int
    right: bool
    keeps_end: bool


class Layout(NamedTuple):
    """The width of the names of the rows, and the columns that fit beside them."""

    first: int
    fits: list[Fit]


class ColumnWidth:
    """How wide the cells of a column are, and how wide the column is where there is less room than they need.

    `typical` is the width that nine of ten cells do not exceed. Both numbers only grow.
    """

    def __init__(self, column: Column, place: int) -> None:
        self.column = column
        self.place = place
        self.widest = 0
        self.typical = 0
        self._counts = Counter[int]()

    def add(self, lengths: list[int], *, is_limited: bool) -> None:
        """Measure cells. Without a limit, all cells are shown in full, and none is typical."""
        self.widest = max(self.widest, *lengths)
        if is_limited:
            self._counts.update(lengths)
            self.typical = max(self.typical, _percentile(self._counts))

    @property
    def can_be_cut(self) -> bool:
        """Whether cells may be cut."""
        return self.column.narrow is not None

    @property
    def can_go(self) -> bool:
        """Whether the column may be left out."""
        return self.column.drop is not None

    def usual(self, room: int) -> int:
        """The width where cells that are much longer than others are cut."""
        narrow = self.column.narrow
        if narrow is None:
            return self.widest
        return max(self.typical, min(self.widest, narrow))

    def least(self, room: int) -> int:
        """The width to which the column can be narrowed without losing what matters in most cells."""
        narrow = self.column.narrow
        if narrow is None:
            return self.widest
        if self.can_go:
            return min(self.usual(room), narrow)
        return min(self.typical, narrow)


class NameWidth(ColumnWidth):
    """The names of the rows: they are never narrowed as others are, and take less than half of the room."""

    def __init__(self) -> None:
        super().__init__(NAME, -1)

    def usual(self, room: int) -> int:
        """The width where names that are much longer than others are cut."""
        narrow = min(self.widest, NARROW_NAME, room * 3 // 8)
        return min(max(self.typical, narrow), int(MOST_NAME * room))

    least = usual


Widths = dict[ColumnWidth, int]


class TableWidths:
    """The widths of the rows of one table, written so far. They only grow, so that later rows still line up."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._name = NameWidth()
        self._cells = [ColumnWidth(column, place) for place, column in enumerate(columns)]

    def add(self, rows: Sequence[Line], places: Places, *, is_limited: bool) -> None:
        """Measure rows; a line without cells has the room to itself."""
        tables = [row for row in rows if row.cells]
        if not tables:
            return
        self._name.add([sum([places(text) for text, _ in row.spans]) for row in tables], is_limited=is_limited)
        for column, cells in zip(self._cells, zip(*[row.cells for row in tables], strict=True), strict=True):
            column.add([places(text) for text, _ in cells], is_limited=is_limited)

    def layout(self, room: int | None) -> Layout:
        """The layout of the rows in a terminal with so many columns; None for a file, which has no limit."""
        shown = [column for column in self._cells if column.widest]
        if room is None:
            return self._as_layout({column: column.widest for column in shown if not column.column.is_spare})
        for columns in _choices([self._name, *shown]):
            for widths in _stages(columns, room):
                left = room - _total(widths)
                if left >= 0:
                    return self._as_layout(_widened(widths, left))
        return self._as_layout(_squeezed(columns, room))

    def _as_layout(self, widths: Widths) -> Layout:
        first = widths.get(self._name, self._name.widest)
        cells = [(each, width) for each, width in widths.items() if each is not self._name]
        return Layout(
            first, [Fit(each.place, width, each.column.right, each.column.keeps_end) for each, width in cells if width]
        )


def _choices(columns: list[ColumnWidth]) -> Iterator[list[ColumnWidth]]:
    """The columns that are shown, from all of them to those that always stay."""
    yield columns
    for leaver in sorted(filter(attrgetter("can_go"), columns), key=attrgetter("column.drop")):
        columns = [column for column in columns if column is not leaver]
        yield columns


def _stages(columns: list[ColumnWidth], room: int) -> Iterator[Widths]:
    """The widths of the columns, from those that all cells need to the least. Spare columns narrow no others."""
    yield {column: column.widest for column in columns}
    yield {column: column.usual(room) for column in columns}
    if not any(each.column.is_spare for each in columns):
        yield {column: column.least(room) for column in columns}


def _total(widths: Widths) -> int:
    """The width of a row, with the gaps before its cells."""
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _widened(widths: Widths, left: int) -> Widths:
    """The widths, with the room that is left: for the columns that always stay, those first that lack least."""
    widened = dict(widths)
    for column in sorted(widths, key=lambda each: (each.can_go, each.widest - widths[each])):
        widened[column] = min(column.widest, widths[column] + left)
        left -= widened[column] - widths[column]
    return widened


def _squeezed(columns: list[ColumnWidth], room: int) -> Widths:
    """The columns that always stay, in less room than they need: the widest are cut."""
    widths = {column: column.least(room) for column in columns}
    soft = {column: width for column, width in widths.items() if column.can_be_cut}
    left = room - _total(widths) + sum(soft.values())
    limit = water_level(list(soft.values()), left)
    cut = {column: min(width, limit) for column, width in soft.items()}
    cut[columns[0]] += max(0, left - sum(cut.values()))
    return widths | cut


def _percentile(counts: Counter[int]) -> int:
    """The length that nine of ten cells do not exceed; empty cells do not count."""
    wanted = TYPICAL * (counts.total() - counts[0] - 1)
    reached = -counts[0]
    for length in sorted(counts):
        reached += counts[length]
        if reached > wanted:
            return length
    return 0


def water_level(lengths: Sequence[int], room: int) -> int:
    """The length to which the longest are cut for all to fit into the room.

    >>> water_level([10, 50, 30], 60), water_level([10, 20], 60)
    (25, 20)
    """
    left = max(0, room)
    for done, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - done)
        if length > share:
            return share
        left -= length
    return max(lengths, default=0)


def lay_out(row: Line, layout: Layout, cutter: Cutter) -> Sequence[Span]:
    """The row with blanks between its cells and none at its end."""
    if not row.cells:
        return row.spans
    spans, places = list(row.spans), cutter.places
    length = 0
    for text, _ in spans:  # a loop is quicker here than a sum, and there is one for each row
        length += places(text)
    if length > layout.first:
        spans = shorten(row, layout.first, cutter)
        length = layout.first
    blank = layout.first - length
    for place, width, right, keeps_end in layout.fits:
        text, ink = row.cells[place]
        if not text:
            blank += GAP + width
            continue
        if places(text) > width:
            text = cutter.cut(text, width, keeps_end=keeps_end)
        before = blank + GAP
        blank = width - places(text)
        if right:
            before += blank
            blank = 0
        spans.append((" " * before + text, ink))
    return spans


def texts_of(rows: Iterable[Line]) -> str:
    """All texts of the rows as one: one search in it is quicker than many."""
    return "".join([text for row in rows for text, _ in chain(row.spans, row.cells)])
