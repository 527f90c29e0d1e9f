"""From which input a call that differs has its difference."""

from __future__ import annotations

from insitu.trace.compare.stops import Side, inputs
from insitu.trace.diff import Difference
from insitu.trace.event import Call

_Index = dict[int, int]


def link_rows(rows: list[Difference], sides: tuple[Side, Side]) -> None:
    """Set `because` of each row that differs: the place of the row that made the input with the largest difference."""
    indices: tuple[_Index, _Index] = ({}, {})
    within = (sides[0].within, sides[1].within)
    for place, row in enumerate(rows):
        if row.cause is None:
            continue
        row.because = _maker(rows, row, indices, within)
        for side, event in enumerate((row.a, row.b)):
            if event is not None:
                indices[side][event.id] = place


def _maker(
    rows: list[Difference], row: Difference, indices: tuple[_Index, _Index], within: tuple[_Index, _Index]
) -> int | None:
    """The place of the earlier row that made the input from which a row has its difference."""
    best: int | None = None
    for side, event in enumerate((row.a, row.b)):
        if type(event) is not Call:
            continue
        for facts in inputs(event):
            if facts.producer is None:
                continue
            place = indices[side].get(within[side].get(facts.producer, facts.producer))
            if place is not None and (best is None or _weight(rows[place], row) > _weight(rows[best], row)):
                best = place
    return best


def _weight(maker: Difference, row: Difference) -> tuple[bool, float]:
    """How well a maker explains a row: it has the same cause, and a large difference."""
    return maker.cause == row.cause, maker.relative.size if maker.relative is not None else 0.0
