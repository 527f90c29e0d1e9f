"""Lines as a list that folds, and as aligned text."""

from __future__ import annotations

import re
from html import unescape

from tests.view.notebook.outline import Outline

from insitu.view.line import Column, Line
from insitu.view.notebook.folded_list import MOST_ROWS, folded, preformatted

COLUMNS = (Column("output"), Column("time", right=True))


def row(text: str, depth: int = 0, *cells: tuple[str, str]) -> Line:
    guide = (("├─ ", "grey"),) if depth else ()
    return Line((*guide, (text, "")), cells, COLUMNS if cells else None, depth)


def open_rows(html: str) -> list[str]:
    """The rows that are unfolded from the beginning."""
    found = re.findall(r"<details open><summary>(.*?)</summary>", html)
    return [unescape(re.sub("<[^>]*>", "", text)).strip() for text in found]


def test_a_row_without_rows_below_does_not_fold() -> None:
    outline = Outline(folded([row("a"), row("b")]))
    assert outline.rows == [(0, "a"), (0, "b")] and "details" not in outline.tags


def test_only_a_few_outermost_rows_are_open() -> None:
    few = [row(f"{number}", depth) for number in range(3) for depth in (0, 1)]
    many = [row(f"{number}", depth) for number in range(9) for depth in (0, 1)]
    assert open_rows(folded(few)) == ["0", "1", "2"]
    assert open_rows(folded(many)) == []


def test_red_rows_are_kept_and_open() -> None:
    lines = [row(f"{number}", depth) for number in range(MOST_ROWS) for depth in range(3)]
    lines.append(row("deep", 3, ("✗ 3 NaN", "red"), ("", "")))
    html = folded(lines)
    assert open_rows(html) == [str(MOST_ROWS - 1)] * 3
    assert (3, "deep ✗ 3 NaN") in Outline(html).rows


def test_a_recursion_deeper_than_the_list_is_counted() -> None:
    rows = Outline(folded([row("call", depth) for depth in range(3000)])).rows
    assert len(rows) == MOST_ROWS + 1 and rows[-1][1] == f"… {3000 - MOST_ROWS:,} more"


def test_text_that_is_cut_has_a_tooltip() -> None:
    html = folded([row("n" * 90, 0, ("c" * 60, "blue"), ("1ms", "green"))])
    assert f'title="{"n" * 90}"' in html and f'title="{"c" * 60}"' in html and 'title="1ms"' not in html


def test_preformatted_lines_with_the_same_columns_are_aligned() -> None:
    html = preformatted([row("a", 0, ("x", ""), ("1", "")), row("long", 0, ("", ""), ("22", "")), row("alone")])
    assert unescape(re.sub("<[^>]*>", "", html)) == "a     x  1\nlong     22\nalone\n"
