"""The view of an explanation: the line that failed with the values under it, the misfits, the origins, the advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from insitu.trace.event import Word
from insitu.trace.explain.explanation import Explanation, Misfit, Origin, ShapeRow, Underline
from insitu.view.advice_line import advice_lines
from insitu.view.line import Line, Span
from insitu.view.name import spot
from insitu.view.origin_words import connection, origin_name, with_reason
from insitu.view.terminal import places_of
from insitu.view.value import result, safe, short, tensor, value_text

MOST_TEXT = 100  # characters of an expression
MOST_NAME = 40
MOST_VALUE = 50
MOST_PLACES_ON_WAY = 3
GUTTER = 6  # columns for the number of a source line
INDENT = 4


def text(explanation: Explanation) -> str:
    """An explanation as plain text, with the exception itself in front."""
    return "\n".join(str(line).rstrip() for line in lines(explanation))


def note(explanation: Explanation) -> str:
    """An explanation as the note of its exception, which shows the exception itself."""
    return "\n".join(str(line).rstrip() for line in body(explanation))


def lines(explanation: Explanation) -> Iterator[Line]:
    """The exception and its explanation."""
    message = explanation.message.strip().partition("\n")[0]
    yield _line((safe(explanation.error), "red"), (_after(": ", safe(message)), ""))
    yield from body(explanation)


def body(explanation: Explanation) -> Iterator[Line]:
    """The explanation without the exception."""
    yield from _site(explanation)
    yield from _source(explanation)
    for misfit in explanation.misfits:
        yield from _misfit(misfit)
    yield from _origins(explanation.origins)
    if explanation.advice is not None:
        yield from advice_lines(with_reason(explanation.advice, explanation.origins), INDENT)


def _line(*spans: Span) -> Line:
    """A line of the spans that have a text."""
    return Line(tuple(span for span in spans if span[0]))


def _after(prefix: str, text: str) -> str:
    """A text after a prefix; nothing if the text is empty."""
    if not text:
        return ""
    return prefix + text


def _site(explanation: Explanation) -> Iterator[Line]:
    """The file, the line, the function, and the modules around."""
    site = explanation.site
    if site is None:
        return
    function = _after(" in ", safe(site.function))
    chain = " ▸ ".join(map(safe, explanation.modules))
    yield _line(("  ", ""), (spot(site) + function, "bold"), (_after("    ", chain), "purple"))


def _source(explanation: Explanation) -> Iterator[Line]:
    """The lines of the source, without the indentation they have in common, and the values under each."""
    shown = [(number, line.expandtabs(1)) for number, line in explanation.source]
    margin = min((_indentation(line) for _, line in shown if line.strip()), default=0)
    for number, line in shown:
        yield _line((f"{number:{GUTTER}} │ ", "grey"), (safe(line[margin:]), ""))
        here = [each for each in explanation.underlines if each.line == number]
        yield from _values([_label(each, line, margin) for each in here])


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


@dataclass(slots=True, frozen=True)
class ValueLabel:
    """A value under a source line: the first and the last column that it underlines, and its text."""

    start: int
    end: int
    text: str


def _label(underline: Underline, line: str, margin: int) -> ValueLabel:
    start = GUTTER + 3 + places_of(line[margin : underline.start])
    width = places_of(line[underline.start : underline.end])
    return ValueLabel(start, start + max(1, width), _label_text(underline.value))


def _label_text(item: Any) -> str:
    """The text of a value; a string has its quotes, unless it is a word for something else."""
    if isinstance(item, str) and not isinstance(item, Word):
        return short(repr(item), MOST_VALUE)
    return result(item, MOST_VALUE) or value_text(item)


def _values(labels: list[ValueLabel]) -> Iterator[Line]:
    """A line of underlines, then the texts of the values: from the right, each as high as there is room."""
    first_of_each = {label.start: label for label in reversed(labels)}
    labels = sorted(first_of_each.values(), key=attrgetter("start"))
    if not labels:
        return
    following = [*labels[1:], labels[-1]]
    yield _line((_drawing(list(map(_stroke, labels, following))), "grey"))
    for row in _label_rows(labels):
        yield _line((_drawing(row.pieces), "cyan"))


def _stroke(label: ValueLabel, following: ValueLabel) -> tuple[int, str]:
    """The line under an expression, up to the next one."""
    end = label.end
    if following is not label:
        end = min(end, following.start)
    return label.start, "┬" + "─" * (end - label.start - 1)


@dataclass(slots=True)
class LabelRow:
    """A row of value texts: the pieces with their columns; `free` is the column up to which it is empty."""

    free: int
    pieces: list[tuple[int, str]] = field(default_factory=list)

    def has_room(self, label: ValueLabel) -> bool:
        """Whether a label fits to the left of what is there."""
        return label.start + len(label.text) + 3 < self.free


def _label_rows(labels: Sequence[ValueLabel]) -> list[LabelRow]:
    rows: list[LabelRow] = []
    for label in reversed(labels):
        depth = next((depth for depth, row in enumerate(rows) if row.has_room(label)), len(rows))
        if depth == len(rows):
            rows.append(LabelRow(label.start))
        for row in rows[:depth]:
            row.pieces.append((label.start, "│"))
            row.free = label.start
        rows[depth].pieces.append((label.start, f"╰ {label.text}"))
        rows[depth].free = label.start
    return rows


def _drawing(pieces: list[tuple[int, str]]) -> str:
    line = ""
    for start, piece in sorted(pieces):
        line = line.ljust(start) + piece
    return line


def _misfit(misfit: Misfit) -> Iterator[Line]:
    """The shapes one under the other, aligned from the right, and what is wrong, under the dimension that is."""
    roles = _widest([row.role for row in misfit.rows])
    widths = _widths(misfit.rows)
    shapes = [_shape(row, widths) for row in misfit.rows]
    room = _widest(shapes)
    for row, shape in zip(misfit.rows, shapes, strict=True):
        name = _after("    ", _on_one_line(row.name))
        yield _line((f"{'':{INDENT}}{row.role:{roles}}  ", "grey"), (shape.rjust(room), "cyan"), (name, ""))
    column = INDENT
    if misfit.rows:
        column += roles + 2 + _offset(misfit.dimension, widths, room)
    yield _line((f"{'':{column}}✗ {safe(misfit.text)}", "red"))


def _widest(texts: list[str]) -> int:
    return max(map(len, texts), default=0)


def _offset(dimension: int | None, widths: list[int], room: int) -> int:
    """The column of the dimension that does not fit, in the shapes."""
    if dimension is None:
        return 0
    inner = widths[:-dimension]
    return room - sum(inner) - 2 * max(0, len(inner) - 1)


def _widths(rows: tuple[ShapeRow, ...]) -> list[int]:
    """How wide each dimension is, from the last one on."""
    most = max((len(row.shape) for row in rows), default=0)
    return [max(len(str(row.shape[-1 - i])) for row in rows if len(row.shape) > i) for i in range(most)]


def _shape(row: ShapeRow, widths: list[int]) -> str:
    sizes = [str(size).rjust(widths[i]) for i, size in enumerate(reversed(row.shape))]
    return safe(", ".join(reversed(sizes))) or "(scalar)"


@dataclass(slots=True, frozen=True)
class OriginRow:
    """A row of the table of origins: the name, the words with the site, the expression there."""

    name: str
    words: str
    expression: str


def _origins(origins: tuple[Origin, ...]) -> Iterator[Line]:
    """Where each value comes from, as a table."""
    rows = [_origin_row(origin) for origin in origins]
    names = _widest([row.name for row in rows])
    widest = _widest([row.words for row in rows])
    for row in rows:
        words = f"{row.words:{widest}}   " if row.expression else row.words
        yield _line((f"{'':{INDENT}}{row.name:{names}}  ", "bold"), (words, ""), (row.expression, "grey"))


def _origin_row(origin: Origin) -> OriginRow:
    name, words = short(safe(origin_name(origin)), MOST_NAME), safe(connection(origin))
    if origin.site is None:
        return OriginRow(name, words, "")
    expression = _on_one_line(origin.site.text)
    if origin.tensors:
        expression = f"{expression}   {' → '.join(map(tensor, origin.tensors))}"
    if origin.via:
        expression = f"{expression}   via {_via(origin)}"
    if origin.callers:
        expression = f"{expression}   called at {', '.join(map(spot, origin.callers))}"
    return OriginRow(name, f"{words} {spot(origin.site)}", expression)


def _via(origin: Origin) -> str:
    """The places on the way to a value: `run line 58, __getitem__ line 37`; some are left out of a long way."""
    places = [f"{safe(site.function)} line {site.line}".lstrip() for site in origin.via]
    if len(places) > MOST_PLACES_ON_WAY:
        places = [places[0], "…", *places[1 - MOST_PLACES_ON_WAY :]]
    return ", ".join(places)


def _on_one_line(text: str) -> str:
    return short(safe(" ".join(text.split())), MOST_TEXT)
