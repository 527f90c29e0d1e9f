"""Variables over steps, for the pane that draws them: of a trace, or curves of a recorded run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import isfinite
from operator import attrgetter
from typing import Any

from insitu.trace.event import Stats, Variable, tensors
from insitu.trace.run import Curve
from insitu.view.number import is_whole
from insitu.view.page.packing import PackedColumns
from insitu.view.ranges import known_stats, union
from insitu.view.value import safe, short

MOST_NAME = 200


@dataclass(slots=True, frozen=True)
class Point:
    """The least, mean and largest of the finite numbers that a variable held, None if there are none."""

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

    def add_variable(self, variable: Variable, point: Point, row: int) -> None:
        """Add what a variable held, at its step or after the change before."""
        self.is_whole &= _is_whole(variable.value)
        x = len(self.x)
        if self.unit == "step":
            x = variable.step
        self.add(x, point, row)

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
        low = _best(min, self.low[-1], point.low)
        high = _best(max, self.high[-1], point.high)
        is_odd = point.is_odd or bool(self.is_odd[-1])
        return Point(low, point.mean, high, is_odd)


def _best(choose: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    """The least or the largest of two numbers, either of which may be missing."""
    if one is None:
        return other
    if other is None:
        return one
    return choose(one, other)


def of_variables(variables: Sequence[Variable], places: Mapping[int, int]) -> list[DrawnSeries]:
    """The variables of a trace that are numbers or tensors with statistics.

    Several changes in a step are one point; in a trace of a single step each change is a point.

    >>> one, two = (Variable(number, None, "loss", 2.5 - number, ("values",), step=number) for number in (0, 1))
    >>> drawn, = of_variables([one, two], {0: 0, 1: 1})
    >>> drawn.x, drawn.mean, drawn.rows
    ([0, 1], [2.5, 1.5], [1, 2])
    """
    unit = "change"
    if len({variable.step for variable in variables}) > 1:
        unit = "step"
    found: dict[tuple[str, int], DrawnSeries] = {}
    for variable in variables:
        if "deleted" in variable.changes:
            continue
        point = _point(variable.value)
        if point is None:
            continue
        key = (variable.name, variable.rank)
        if key not in found:
            found[key] = DrawnSeries(short(safe(variable.name), MOST_NAME), variable.rank, unit, is_whole=True)
        found[key].add_variable(variable, point, places.get(variable.id, -1) + 1)
    return list(found.values())


def of_curves(named: Iterable[tuple[str, Sequence[Curve]]]) -> list[DrawnSeries]:
    """Curves of recorded variables, which have no rows."""
    found: list[DrawnSeries] = []
    for name, curves in named:
        shown = short(safe(name), MOST_NAME) or "(root)"
        found += [_of_curve(shown, curve) for curve in curves]
    return found


def _of_curve(name: str, curve: Curve) -> DrawnSeries:
    return DrawnSeries(
        name,
        curve.rank,
        is_whole=curve.is_whole,
        x=list(curve.steps),
        low=list(curve.low),
        mean=list(curve.mean),
        high=list(curve.high),
        is_odd=[int(step in curve.odd) for step in curve.steps],
        rows=[0] * len(curve.steps),
    )


def fill(columns: PackedColumns, series: Sequence[DrawnSeries]) -> list[Any]:
    """Add the columns of the points; return the description of each variable."""
    for name in ("x", "is_odd", "rows"):
        columns.integers(f"series.{name}", _column(series, name), delta=name != "is_odd")
    for name in ("low", "mean", "high"):
        columns.floats(f"series.{name}", _column(series, name))
    return [[drawn.name, drawn.rank, drawn.unit, len(drawn.x), int(drawn.is_whole)] for drawn in series]


def _column(series: Sequence[DrawnSeries], name: str) -> list[Any]:
    """A column of all variables, one after the other."""
    return list(chain.from_iterable(map(attrgetter(name), series)))


def _point(value: Any) -> Point | None:
    """The numbers of a value; None for a value without numbers."""
    if isinstance(value, (bool, int, float)):
        return _number_point(value)
    found = known_stats(tensors(value))
    whole = union(found)
    if whole is None:
        return None
    return _stats_point(whole, found)


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
    if isinstance(value, float):
        return False
    return all(is_whole(facts.dtype) for facts in tensors(value))


def _stats_point(whole: Stats, every: list[Stats]) -> Point:
    """The tensors of a value taken as one; without a mean, the middle of the range."""
    is_odd = whole.nan + whole.inf > 0
    low, high = whole.min, whole.max
    if low is None or high is None:
        return Point(None, None, None, is_odd)
    return Point(low, _mean(every, low / 2 + high / 2), high, is_odd)


def _mean(every: list[Stats], default: float) -> float:
    """The mean of the means that are known; shares, because the sum may be too large for a float."""
    means = [stats.mean for stats in every if stats.mean is not None and isfinite(stats.mean)]
    if means:
        return sum(mean / len(means) for mean in means)
    return default
