"""From which input a call that differs has its difference."""

from __future__ import annotations

from insitu.trace.compare.stops import Side, inputs
from insitu.trace.diff import Compared, Difference
from insitu.trace.event import Call

_Index = dict[int, int]


def link_rows(rows: list[Difference], sides: tuple[Side, Side]) -> None:
    """Set `because` of each row that differs: the place of the row that made the input with the largest difference."""
    makers_a, makers_b = _Makers(sides[0]), _Makers(sides[1])
    for place, row in enumerate(rows):
        if row.cause is None:
            continue
        found = makers_a.of(row.a)
        if not found:  # most often both runs say the same
            found = makers_b.of(row.b)
        if len(found) == 1:
            row.because = found[0]
        elif found:
            row.because = _likeliest(rows, row, found)
        makers_a.add(row.a, place)
        makers_b.add(row.b, place)


class _Makers:
    """The rows of one run that differ, by the calls that have them."""

    def __init__(self, side: Side) -> None:
        self._within = side.within
        self._places: _Index = {}

    def add(self, event: Compared | None, place: int) -> None:
        """Remember the place of the row of a call."""
        if event is not None:
            self._places[event.id] = place

    def of(self, event: Compared | None) -> list[int]:
        """The places of the rows that made inputs of a call."""
        if type(event) is not Call or not self._places:
            return []
        found: list[int] = []
        for facts in inputs(event):
            producer = facts.producer
            if producer is not None:
                place = self._places.get(self._within.get(producer, producer))
                if place is not None:
                    found.append(place)
        return found


def _likeliest(rows: list[Difference], row: Difference, places: list[int]) -> int:
    """The maker that explains a row best: it has the same cause, and a large difference."""

    def weight(place: int) -> tuple[bool, float]:
        maker = rows[place]
        return maker.cause == row.cause, maker.relative.size if maker.relative is not None else 0.0

    return max(places, key=weight)
