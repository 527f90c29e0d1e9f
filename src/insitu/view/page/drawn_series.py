"""Variables over steps, for the pane that draws them: of a trace, or curves of a recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from insitu.trace.event import Stats, Variable, tensors
from insitu.trace.run import Curve
from insitu.view.number import is_whole
from insitu.view.page.packing import PackedColumns
from insitu.view.value import safe, short

MOST_NAME = 200


@dataclass(slots=True, frozen=True)
class Point:
    """What a variable held: least, mean and largest of the finite numbers, None if there are none."""

    low: float | None
    mean: float | None
    high: float | None
    is_odd: bool  # whether a number is not finite


UNKNOWN = Point(None, None, None, is_odd=True)


@dataclass(slots=True)
class DrawnSeries:
    """A variable of one rank as it is drawn: points from left to right, and the row that a click on each leads to."""

    name: str
    rank: int
    unit: str = "step"
    is_whole: bool = False  # whether all numbers are integers
    x: list[int] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    mean: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    is_odd: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, x: int, point: Point, row: int) -> None:
        """Add a point; the last change of a step is the one that stays, and the band holds all of them."""
        if self.x and self.x[-1] == x:
            point = self._joined(point)
            for column in (self.x, self.low, self.mean, self.high, self.is_odd, self.rows):
                column.pop()
        self.x.append(x)
        self.low.append(point.low)
        self.mean.append(point.mean)
        self.high.append(point.high)
        self.is_odd.append(int(point.is_odd))
        self.rows.append(row)

    def _joined(self, point: Point) -> Point:
        """A point in the band of the one before it."""
        lows = [low for low in (self.low[-1], point.low) if low is not None]
        highs = [high for high in (self.high[-1], point.high) if high is not None]
        is_odd = point.is_odd or bool(self.is_odd[-1])
        return Point(min(lows, default=None), point.mean, max(highs, default=None), is_odd)


def of_variables(variables: Sequence[Variable], places: Mapping[int, int]) -> list[DrawnSeries]:
    """The variables of a trace that are numbers or tensors with statistics.

    What a variable was several times in a step is one point; in a trace of a single step each change is a point.

    >>> one, two = (Variable(number, None, "loss", 2.5 - number, ("values",), step=number) for number in (0, 1))
    >>> drawn, = of_variables([one, two], {0: 0, 1: 1})
    >>> drawn.x, drawn.mean, drawn.rows
    ([0, 1], [2.5, 1.5], [1, 2])
    """
    stepped = len({variable.step for variable in variables}) > 1
    found: dict[tuple[str, int], DrawnSeries] = {}
    for variable in variables:
        point = _point(variable.value)
        if point is None or "deleted" in variable.changes:
            continue
        key = (variable.name, variable.rank)
        drawn = found.get(key)
        if drawn is None:
            name = short(safe(variable.name), MOST_NAME)
            drawn = found[key] = DrawnSeries(name, variable.rank, "step" if stepped else "change", is_whole=True)
        drawn.is_whole &= _is_whole(variable.value)
        x = variable.step if stepped else len(drawn.x)
        drawn.add(x, point, places.get(variable.id, -1) + 1)
    return list(found.values())


def of_curves(named: Iterable[tuple[str, Sequence[Curve]]]) -> list[DrawnSeries]:
    """Curves of recorded variables, which have no rows."""
    return [
        DrawnSeries(
            *(short(safe(name), MOST_NAME) or "(root)", curve.rank, "step", curve.is_whole, list(curve.steps)),
            *(list(curve.low), list(curve.mean), list(curve.high)),
            is_odd=[int(step in curve.odd) for step in curve.steps],
            rows=[0] * len(curve.steps),
        )
        for name, curves in named
        for curve in curves
    ]


def fill(columns: PackedColumns, series: Sequence[DrawnSeries]) -> list[Any]:
    """Add the columns of the points; return the description of each variable."""
    for name in ("x", "is_odd", "rows"):
        numbers = [number for drawn in series for number in getattr(drawn, name)]
        columns.integers(f"series.{name}", numbers, delta=name != "is_odd")
    for name in ("low", "mean", "high"):
        columns.floats(f"series.{name}", [number for drawn in series for number in getattr(drawn, name)])
    return [[drawn.name, drawn.rank, drawn.unit, len(drawn.x), int(drawn.is_whole)] for drawn in series]


def _point(value: Any) -> Point | None:
    """The numbers of a value; None for a value without numbers."""
    if isinstance(value, (bool, int, float)):
        return _number_point(value)
    found = [facts.stats for facts in tensors(value) if facts.stats is not None]
    if found:
        return _stats_point(found)
    return None


def _number_point(value: float) -> Point | None:
    """A number; None for one that no float holds."""
    try:
        number = float(value)
    except OverflowError:
        return None
    if isfinite(number):
        return Point(number, number, number, is_odd=False)
    return UNKNOWN


def _is_whole(value: Any) -> bool:
    """Whether a variable holds an integer, or only tensors of integers."""
    if isinstance(value, int):
        return True
    return not isinstance(value, float) and all(is_whole(facts.dtype) for facts in tensors(value))


def _stats_point(every: list[Stats]) -> Point:
    """The tensors of a value taken as one; without a mean, the middle of the range."""
    is_odd = any(stats.nan or stats.inf for stats in every)
    lows = [stats.min for stats in every if stats.min is not None]
    highs = [stats.max for stats in every if stats.max is not None]
    if not lows or not highs:
        return Point(None, None, None, is_odd)
    low, high = min(lows), max(highs)
    return Point(low, _mean(every, low / 2 + high / 2), high, is_odd)


def _mean(every: list[Stats], default: float) -> float:
    """The mean of the means that are known; shares, because the sum may be too large for a float."""
    means = [stats.mean for stats in every if stats.mean is not None and isfinite(stats.mean)]
    if means:
        return sum(mean / len(means) for mean in means)
    return default
