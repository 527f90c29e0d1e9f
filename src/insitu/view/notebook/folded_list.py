"""Lines as HTML that needs no script: a tree as a list whose branches fold, other lines as preformatted text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from insitu.view.layout import GAP
from insitu.view.line import Line, Span
from insitu.view.notebook.markup import NOTHING, Markup, element, joined
from insitu.view.terminal import places_of

MOST_ROWS = 200
MOST_NAME = 56  # characters of the column of names; the rest of a name is in its tooltip
MOST_CELL = 26
MOST_OPEN = 3  # outermost rows that are open from the beginning; of more, all are closed
MOST_ALARMS = 40  # red rows that are kept before all others
INDENT = 2  # characters for each level
SLACK = 1  # a sign that the font lacks may be wider than others
TAGS = {"bold": "b"}  # elements that need no style


def spans_of(spans: Iterable[Span]) -> Markup:
    """Styled text.

    >>> spans_of((("fc", "bold"), (" x < y", "")))
    '<b class="i-bold">fc</b> x &lt; y'
    """
    return joined(*[_span(text, ink) for text, ink in spans])


def _span(text: str, ink: str) -> str:
    if not ink or not text:
        return text
    return element(TAGS.get(ink, "span"), text, class_=f"i-{ink}")


def preformatted(lines: Iterable[Line]) -> Markup:
    """Lines one below the other; those with the same columns are aligned."""
    parts: list[Markup] = []
    for _, block in groupby(lines, key=attrgetter("columns")):
        rows = list(block)
        widths = [min(MOST_NAME, max(_length(line.spans) for line in rows)), *_widths(rows)]
        parts += [joined(_aligned(line, widths), "\n") for line in rows]
    return element("pre", *parts)


def _aligned(line: Line, widths: list[int]) -> Markup:
    """A line with its cells behind it, each from where its column begins."""
    spans, blank = list(line.spans), widths[0] - _length(line.spans)
    for (text, ink), width in zip(line.cells, widths[1:], strict=False):
        if not text:
            blank += GAP + width
            continue
        spans += ((" " * (max(blank, 0) + GAP), ""), (text, ink))
        blank = width - places_of(text)
    return spans_of(spans)


@dataclass(slots=True)
class Branch:
    """A row that is shown, the rows below it, and the number of rows below it that are left out."""

    line: Line
    is_alarming: bool = False
    hidden: int = 0
    below: list[Branch] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        """Whether there is nothing below."""
        return not self.hidden and not self.below


def folded(lines: Sequence[Line], *, most_rows: int = MOST_ROWS, most_open: int = MOST_OPEN) -> Markup:
    """Lines of a tree as a list that unfolds; of a long one the upper levels, and how many lines are below them.

    Rows in red are shown with all that is around them, and are open from the beginning.
    """
    alarming = _alarming(lines)
    order = sorted(range(len(lines)), key=lambda place: (place not in alarming, lines[place].depth, place))
    root = _branches(lines, set(order[:most_rows]), alarming)
    widths = _widths(lines)
    names = min(MOST_NAME, max((INDENT * line.depth + _length(line.body) for line in lines if line.cells), default=0))
    is_open = len(root.below) <= most_open
    rows = _list(root, widths, 0, is_open=is_open)
    return element("div", rows, style=f"--name:{names + SLACK}ch")


def _alarming(lines: Sequence[Line]) -> set[int]:
    """The places of the first lines in red, and of those around them."""
    found: set[int] = set()
    around: list[int] = []
    count = 0
    for place, line in enumerate(lines):
        while around and lines[around[-1]].depth >= line.depth:
            around.pop()
        if _is_red(line) and count < MOST_ALARMS:
            count += 1
            found |= {place, *around}
        around.append(place)
    return found


def _is_red(line: Line) -> bool:
    return any(ink == "red" and text for text, ink in (*line.spans, *line.cells))


def _branches(lines: Sequence[Line], shown: set[int], alarming: set[int]) -> Branch:
    """The rows that are shown, below a root that is not a row."""
    root = Branch(Line((), depth=-1))
    around = [root]
    for place, line in enumerate(lines):
        while around[-1].line.depth >= line.depth:
            around.pop()
        if place not in shown:
            around[-1].hidden += 1
            continue
        branch = Branch(line, place in alarming)
        around[-1].below.append(branch)
        around.append(branch)
    return root


def _widths(lines: Sequence[Line]) -> list[int]:
    """The width of each column of cells, in characters."""
    widths: Counter[int] = Counter()
    for line in lines:
        for index, (text, _) in enumerate(line.cells):
            widths[index] = max(widths[index], min(MOST_CELL, places_of(text)))
    return [widths[index] for index in range(len(widths))]


def _list(branch: Branch, widths: list[int], depth: int, *, is_open: bool) -> Markup:
    items = [element("li", _item(each, widths, depth, is_open=is_open)) for each in branch.below]
    if branch.hidden:
        items.append(element("li", f"… {branch.hidden:,} more", class_="i-note"))
    return element("ul", *items, style=f"--depth:{depth}")


def _item(branch: Branch, widths: list[int], depth: int, *, is_open: bool) -> Markup:
    row = _row(branch.line, widths)
    if branch.is_leaf:
        return element("div", row, class_="i-leaf")
    below = _list(branch, widths, depth + 1, is_open=False)
    return element("details", element("summary", row), below, open=is_open or branch.is_alarming)


def _row(line: Line, widths: list[int]) -> Markup:
    """A line in its columns; blanks between the cells for where nothing lays them out."""
    if not line.cells:
        return element("samp", element("span", spans_of(line.body)), class_="i-row")
    title = "".join(text for text, _ in line.body)
    parts: list[str] = [element("span", spans_of(line.body), class_="i-name", **_title(title, MOST_NAME))]
    columns = line.columns or ()
    for index, (text, ink) in enumerate(line.cells):
        is_right = index < len(columns) and columns[index].right
        parts += (" ", _cell(text, ink, widths[index], is_right=is_right))
    return element("samp", *parts, class_="i-row")


def _cell(text: str, ink: str, width: int, *, is_right: bool) -> Markup:
    if not width:
        return NOTHING
    side = " i-right" if is_right else ""
    return element("span", _span(text, ink), class_=f"i-cell{side}", style=f"width:{width}ch", **_title(text, width))


def _title(text: str, width: int) -> dict[str, str]:
    """The whole text, for where it is cut."""
    if places_of(text) > width:
        return {"title": text}
    return {}


def _length(spans: Iterable[Span]) -> int:
    return sum(places_of(text) for text, _ in spans)
