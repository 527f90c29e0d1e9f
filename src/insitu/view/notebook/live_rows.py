"""The rows that a running program has brought so far, as a notebook shows them: alike passes are one, few are kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from insitu.view.line import Line, Span, TimeSpan
from insitu.view.notebook.folded_list import folded, preformatted
from insitu.view.notebook.markup import Markup

MOST_ROWS = 300  # that are shown
MOST_CALLS = 60  # outermost calls, the last ones: so each of them has some of the rows
MOST_KEPT = 5000  # lines that are kept in memory
MOST_PERIOD = 32  # outermost calls in a pass of a loop
OUTPUT = "output"


class LiveRows(Protocol):
    """Rows that grow."""

    def add(self, lines: Iterable[Line], step: int = 0) -> None:
        """Add lines that an event of this step has brought."""
        ...

    def settle(self) -> bool:
        """The block that brings lines has ended: arrange the last of them. Whether that changes anything."""
        ...

    def lines(self) -> list[Line]:
        """The rows that are kept, below the number of those that are not."""
        ...

    def html(self) -> Markup:
        """The rows as HTML."""
        ...


class TextRows:
    """The last lines of a view that is not a tree."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=MOST_ROWS)
        self._count = 0

    def add(self, lines: Iterable[Line], step: int = 0) -> None:
        """Add lines."""
        for line in lines:
            self._lines.append(line)
            self._count += 1

    def settle(self) -> bool:
        """Lines of text stay as they are."""
        return False

    def lines(self) -> list[Line]:
        """The last lines."""
        left_out = _left_out_text(self._count - len(self._lines), "lines")
        return [*[Line((span,)) for span in left_out], *self._lines]

    def html(self) -> Markup:
        """The last lines as text."""
        return preformatted(self.lines())


def _left_out_text(count: int, what: str) -> list[Span]:
    """How many lines or calls are not shown; nothing if all are."""
    if not count:
        return []
    return [(f"… {count:,} earlier {what} are not shown", "grey")]


@dataclass(slots=True)
class CallBlock:
    """An outermost call with everything inside it."""

    rows: list[Line]
    step: int
    likeness: Hashable

    @property
    def calls(self) -> int:
        """How many calls it is."""
        return 1

    @property
    def first_step(self) -> int:
        """The step in which it ran."""
        return self.step

    @property
    def size(self) -> int:
        """How many lines it has."""
        return len(self.rows)

    def lines(self) -> Iterator[Line]:
        """Its lines."""
        yield from self.rows


@dataclass(slots=True)
class Pass:
    """Blocks that follow each other, and did so several times; only the last ones are kept."""

    blocks: list[CallBlock | Pass]
    count: int
    first_step: int

    @property
    def calls(self) -> int:
        """How many outermost calls there were in all passes."""
        return self.count * sum(block.calls for block in self.blocks)

    @property
    def step(self) -> int:
        """The step of the last block."""
        return self.blocks[-1].step

    @property
    def likeness(self) -> Hashable:
        """What passes have in common that are alike."""
        return (self.count, *[block.likeness for block in self.blocks])

    @property
    def size(self) -> int:
        """How many lines are kept."""
        return sum(block.size for block in self.blocks)

    def lines(self) -> Iterator[Line]:
        """The lines of the last pass below the number of passes, or behind it if they are one call."""
        rows = [line for block in self.blocks for line in block.lines()]
        first, *others = rows
        if all(row.depth > first.depth for row in others):
            yield replace(first, spans=(*first.guide, *self._title(), ("  ", ""), *first.body))
            yield from others
            return
        yield Line((*first.guide, *self._title()), depth=first.depth)
        yield from map(_deeper, rows)

    def _title(self) -> tuple[Span, ...]:
        number: Span = (f"× {self.count:,} alike, the last:", "yellow")
        is_one_for_each_step = self.step - self.first_step == self.count - 1
        if is_one_for_each_step:
            return ((f"step {self.first_step:,} … {self.step:,}  ", "grey"), number)
        return (number,)


def _deeper(line: Line) -> Line:
    """A line one level further in."""
    guide = "".join(text for text, _ in line.guide)
    return replace(line, spans=((f"  {guide}", "grey"), *line.body), depth=line.depth + 1)


@dataclass(slots=True)
class TreeRows:
    """The outermost calls of a tree, each with what is inside it; passes of a loop that are alike are one."""

    _units: list[CallBlock | Pass] = field(default_factory=list)
    _open: list[Line] = field(default_factory=list)
    _step: int = 0
    _left_out: int = 0

    def add(self, lines: Iterable[Line], step: int = 0) -> None:
        """Add lines; one that is as far out as the first line of the last call begins another call."""
        for line in lines:
            if self._open and line.depth <= self._open[0].depth:
                self._close()
            self._open.append(line)
            self._step = step

    def _close(self) -> None:
        """The last call is complete: its lines are a block."""
        self._units.append(CallBlock(self._open, self._step, tuple(map(_likeness, self._open))))
        self._open = []
        while _fold_last(self._units):
            pass
        self._forget()

    def _forget(self) -> None:
        """Leave out the oldest calls beyond what is kept."""
        while len(self._units) > 1 and self._is_full():
            self._left_out += self._units.pop(0).calls

    def _is_full(self) -> bool:
        if len(self._units) > MOST_CALLS:
            return True
        return sum(unit.size for unit in self._units) > MOST_KEPT

    def settle(self) -> bool:
        """All lines of the last call are there: it may be alike those before it."""
        if not self._open:
            return False
        self._close()
        return True

    def lines(self) -> list[Line]:
        """The rows, the oldest first."""
        rows = [*[line for unit in self._units for line in unit.lines()], *self._open]
        left_out = _left_out_text(self._left_out, "calls")
        return [*[replace(rows[0], spans=(*rows[0].guide, span), cells=()) for span in left_out], *rows]

    def html(self) -> Markup:
        """The rows as a list that folds."""
        return folded(self.lines(), most_rows=MOST_ROWS)


def _likeness(line: Line) -> Hashable:
    """What lines have in common that differ in values and times only; what is red stays red."""
    texts = tuple(span[0] for span in line.body if not isinstance(span, TimeSpan))
    inks = tuple(ink for _, ink in line.cells)
    outputs = tuple(text for text, ink in _output_cells(line) if ink != "red")
    return line.depth, texts, inks, outputs


def _output_cells(line: Line) -> list[Span]:
    columns = line.columns or ()
    return [cell for column, cell in zip(columns, line.cells, strict=False) if column.name == OUTPUT]


def _fold_last(units: list[CallBlock | Pass]) -> bool:
    """Join the last units with those before them if they are alike, as passes of a loop; whether some were."""
    for period in range(1, min(MOST_PERIOD, len(units) - 1) + 1):
        last = units[-period:]
        if _repeats_pass(units[-period - 1], last):
            before = units[-period - 1]
            assert isinstance(before, Pass)
            before.blocks, before.count = last, before.count + 1
            del units[-period:]
            return True
        earlier = units[-2 * period : -period]
        if len(earlier) == period and _are_alike(earlier, last):
            units[-2 * period :] = [Pass(last, 2, earlier[0].first_step)]
            return True
    return False


def _repeats_pass(before: CallBlock | Pass, last: Sequence[CallBlock | Pass]) -> bool:
    return isinstance(before, Pass) and _are_alike(before.blocks, last)


def _are_alike(one: Sequence[CallBlock | Pass], other: Sequence[CallBlock | Pass]) -> bool:
    if len(one) != len(other):
        return False
    return all(a.likeness == b.likeness for a, b in zip(one, other, strict=True))
