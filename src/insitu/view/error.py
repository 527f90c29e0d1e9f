"""The view of an error: the line that failed with the shapes under it, what does not fit, where all that comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from insitu.trace.event import Word
from insitu.trace.explanation import Explanation, Mark, Misfit, Origin, Place, Row
from insitu.view.line import Line, Span
from insitu.view.name import spot
from insitu.view.terminal import places_of
from insitu.view.value import result, safe, short, value_text

MOST_TEXT = 100  # characters of an expression
MOST_VALUE = 50
GUTTER = 6  # places for the number of a source line


def text(explanation: Explanation) -> str:
    """All of an explanation as plain text, with the exception itself in front."""
    return "\n".join(str(line).rstrip() for line in lines(explanation))


def note(explanation: Explanation) -> str:
    """The same for where the exception is shown already: in its note."""
    return "\n".join(str(line).rstrip() for line in body(explanation))


def lines(explanation: Explanation) -> Iterator[Line]:
    """The exception and what explains it."""
    message = explanation.message.strip().partition("\n")[0]
    yield _line((safe(explanation.error), "red"), (f": {safe(message)}" if message else "", ""))
    yield from body(explanation)


def body(explanation: Explanation) -> Iterator[Line]:
    """What explains the exception."""
    place = explanation.place
    if place is not None:
        inside = f" in {safe(place.function)}" if place.function else ""
        chain = " ▸ ".join(map(safe, explanation.modules))
        yield _line(("  ", ""), (spot(place) + inside, "bold"), (f"    {chain}" if chain else "", "purple"))
    yield from _source(explanation)
    for misfit in explanation.misfits:
        yield from _misfit(misfit)
    yield from _origins(explanation.origins)


def _line(*spans: Span) -> Line:
    return Line(tuple(span for span in spans if span[0]))


def _source(explanation: Explanation) -> Iterator[Line]:
    """The lines of the source, without the indentation they have in common, and the marks under each."""
    shown = [(number, line.expandtabs(1)) for number, line in explanation.source]
    margin = min((len(line) - len(line.lstrip()) for _, line in shown if line.strip()), default=0)
    for number, line in shown:
        yield _line((f"{number:{GUTTER}} │ ", "grey"), (safe(line[margin:]), ""))
        marks = [mark for mark in explanation.marks if mark.line == number]
        yield from _marks([_placed(mark, line, margin) for mark in marks])


def _placed(mark: Mark, line: str, margin: int) -> tuple[int, int, str]:
    """First place, last place and text of a mark on the screen."""
    before = GUTTER + 3 + places_of(line[margin : mark.start])
    return (
        before,
        before + max(1, places_of(line[mark.start : mark.end])),
        _value(mark.value),
    )


def _value(item: Any) -> str:
    """What a mark says; a string has its quotes, unless it is the word for something else."""
    if isinstance(item, str) and not isinstance(item, Word):
        return short(repr(item), MOST_VALUE)
    return result(item, MOST_VALUE) or value_text(item)


def _marks(marks: list[tuple[int, int, str]]) -> Iterator[Line]:
    """A line that underlines what is marked, then the texts: from the right, each as high as there is room."""
    marks = sorted({start: (start, end, text) for start, end, text in reversed(marks)}.values())
    if not marks:
        return
    yield _line(
        (
            _drawn([(start, "┬" + "─" * (_end(marks, index) - start - 1)) for index, (start, *_) in enumerate(marks)]),
            "grey",
        )
    )
    free: list[int] = []  # how far to the left each row is taken
    rows: list[list[tuple[int, str]]] = []
    for start, _, text in reversed(marks):
        row = next((index for index, taken in enumerate(free) if start + len(text) + 3 < taken), len(free))
        if row == len(free):
            free.append(0)
            rows.append([])
        rows[row].append((start, f"╰ {text}"))
        for above in range(row + 1):
            free[above] = start
            if above < row:
                rows[above].append((start, "│"))
    for row_marks in rows:
        yield _line((_drawn(row_marks), "cyan"))


def _end(marks: list[tuple[int, int, str]], index: int) -> int:
    """Where the underlining of a mark ends: before the next one begins."""
    following = marks[index + 1][0] if index + 1 < len(marks) else marks[index][1]
    return min(marks[index][1], following)


def _drawn(pieces: list[tuple[int, str]]) -> str:
    line = ""
    for start, piece in sorted(pieces):
        line = line.ljust(start) + piece
    return line


def _misfit(misfit: Misfit) -> Iterator[Line]:
    """The shapes one under the other, aligned from the right, and what is wrong, under the dimension that is."""
    roles = max((len(row.role) for row in misfit.rows), default=0)
    widths = _widths(misfit.rows)
    shapes = [_shape(row, widths) for row in misfit.rows]
    room = max(map(len, shapes), default=0)
    for row, shape in zip(misfit.rows, shapes, strict=True):
        name = f"    {_on_one_line(row.name)}" if row.name else ""
        yield _line((f"    {row.role:{roles}}  ", "grey"), (shape.rjust(room), "cyan"), (name, ""))
    column = 4
    if misfit.rows:
        column += roles + 2
        if misfit.dimension is not None:
            column += room - _from_right(widths, misfit.dimension)
    yield _line((" " * column + "✗ ", "red"), (safe(misfit.text), ""))
    if misfit.advice:
        yield _line((" " * column + "→ ", "green"), (safe(misfit.advice), ""))


def _widths(rows: tuple[Row, ...]) -> list[int]:
    """How wide each dimension is, from the last one on."""
    most = max((len(row.shape) for row in rows), default=0)
    return [max(len(str(row.shape[-1 - i])) for row in rows if len(row.shape) > i) for i in range(most)]


def _shape(row: Row, widths: list[int]) -> str:
    sizes = [str(size).rjust(widths[i]) for i, size in enumerate(reversed(row.shape))]
    return safe(", ".join(reversed(sizes))) or "(scalar)"


def _from_right(widths: list[int], dimension: int) -> int:
    """How many places from the end of the shapes the text of a dimension begins."""
    inner = widths[:-dimension]
    return sum(inner) + 2 * max(0, len(inner) - 1)


def _origins(origins: tuple[Origin, ...]) -> Iterator[Line]:
    """Where each thing comes from, as a table."""
    rows = [(short(safe(origin.name), 40), _how(origin), _expression(origin.place)) for origin in origins]
    names, ways = (max((len(row[i]) for row in rows), default=0) for i in (0, 1))
    for name, way, expression in rows:
        padded = f"{way:{ways}}   " if expression else way
        yield _line((f"    {name:{names}}  ", "bold"), (padded, ""), (expression, "grey"))


def _how(origin: Origin) -> str:
    return f"{origin.how} {spot(origin.place)}" if origin.place is not None else origin.how


def _expression(place: Place | None) -> str:
    return _on_one_line(place.text) if place is not None else ""


def _on_one_line(text: str) -> str:
    return short(safe(" ".join(text.split())), MOST_TEXT)
