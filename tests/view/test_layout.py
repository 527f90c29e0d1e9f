"""Tables in terminals of some width: which columns are shown, and how wide."""

from __future__ import annotations

import pytest

from insitu.view.layout import TableWidths, water_level
from insitu.view.line import Column, Line

OUTPUT = Column("output", narrow=10)
SPARE = Column("input", drop=0, narrow=10, is_spare=True)
TIME = Column("time", right=True, drop=2)
SOURCE = Column("source", narrow=10, keeps_end=True)
COLUMNS = (OUTPUT, SPARE, TIME, SOURCE)


def widths(room: int | None, *rows: tuple[int, ...], columns: tuple[Column, ...] = COLUMNS) -> list[int]:
    """The widths of the name and of the columns, 0 for those that are not shown, for rows with such lengths."""
    table = TableWidths(columns)
    lines = [Line((("n" * name, ""),), tuple(("c" * cell, "") for cell in cells), columns) for name, *cells in rows]
    table.add(lines, len, is_limited=room is not None)
    first, fits = table.layout(room)
    shown = {fit.place: fit.width for fit in fits}
    return [first, *(shown.get(place, 0) for place in range(len(columns)))]


def test_all_columns_are_shown_in_full_where_they_fit() -> None:
    assert widths(48, (20, 5, 5, 5, 5)) == [20, 5, 5, 5, 5]


def test_a_spare_column_goes_first_and_is_never_shown_without_a_limit() -> None:
    assert widths(47, (20, 5, 5, 5, 5)) == [20, 5, 0, 5, 5]
    assert widths(None, (20, 5, 5, 5, 5)) == [20, 5, 0, 5, 5]


def test_a_spare_column_narrows_no_other() -> None:
    rows = [(20, 12, 8, 5, 12)] * 10
    assert widths(65, *rows) == [20, 12, 8, 5, 12]
    assert widths(64, *rows) == [20, 12, 0, 5, 12]


def test_cells_that_are_longer_than_nine_of_ten_are_cut_before_a_column_goes() -> None:
    rows = [(20, 12, 0, 5, 5)] * 19 + [(60, 40, 0, 5, 5)]
    assert widths(60, *rows) == [22, 22, 0, 5, 5]
    assert widths(48, *rows) == [20, 12, 0, 5, 5]


def test_columns_are_narrowed_before_one_goes_but_not_below_what_they_declare() -> None:
    rows = [(20, 12, 0, 5, 12)] * 10
    assert widths(55, *rows) == [20, 12, 0, 5, 12]
    assert widths(51, *rows)[1:] == [10, 0, 5, 10]
    assert widths(44, *rows)[3] == 0


def test_columns_that_stay_share_a_room_that_is_too_small() -> None:
    rows = [(40, 30, 0, 5, 30)] * 10
    for room in range(10, 40):
        name, output, _, time, source = widths(room, *rows)
        assert time == 0 and min(name, output, source) > 0
        assert name + output + source + 4 <= room


def test_widths_only_grow() -> None:
    table = TableWidths((OUTPUT,))
    found = []
    for length in (5, 9, 3, 7):
        table.add([Line((("n" * length, ""),), (("c", ""),), (OUTPUT,))], len, is_limited=True)
        found.append(table.layout(80).first)
    assert found == [5, 9, 9, 9]


def test_lines_without_cells_have_the_room_to_themselves() -> None:
    table = TableWidths((OUTPUT,))
    table.add([Line((("n" * 50, ""),), (), (OUTPUT,))], len, is_limited=True)
    assert table.layout(40) == (0, [])


@pytest.mark.parametrize("room", [0, 1, 5, 17, 100])
def test_cut_lengths_fit_into_the_room(room: int) -> None:
    lengths = [3, 9, 1, 30, 14]
    assert sum(min(length, water_level(lengths, room)) for length in lengths) <= max(room, 0)
