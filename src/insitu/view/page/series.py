"""Variables over steps, for the pane that draws them: of a trace, or curves of a recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

from insitu.trace.event import Stats, Variable, tensors
from insitu.trace.run import Curve
from insitu.view.page.packing import PackedColumns
from insitu.view.value import is_whole, safe, short

MOST_NAME = 200


@dataclass(slots=True)
class DrawnSeries:
    """A variable of one rank as it is drawn: points from left to right, and the row that a click on each leads to."""

    name: str
    rank: int
    unit: str = "step"
    is_whole: bool = False  # all of it is integers
    x: list[int] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    mean: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    is_odd: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)


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
        numbers = _numbers(variable.value)
        if numbers is None or "deleted" in variable.changes:
            continue
        key = (variable.name, variable.rank)
        drawn = found.get(key)
        if drawn is None:
            name = short(safe(variable.name), MOST_NAME)
            drawn = found[key] = DrawnSeries(name, variable.rank, "step" if stepped else "change", is_whole=True)
        drawn.is_whole &= _is_whole(variable.value)
        x = variable.step if stepped else len(drawn.x)
        _add(drawn, x, numbers, places.get(variable.id, -1) + 1)
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
    """Add the columns of the points; returned is what is said of each variable."""
    for name in ("x", "is_odd", "rows"):
        numbers = [number for drawn in series for number in getattr(drawn, name)]
        columns.integers(f"series.{name}", numbers, delta=name != "is_odd")
    for name in ("low", "mean", "high"):
        columns.floats(f"series.{name}", [number for drawn in series for number in getattr(drawn, name)])
    return [[drawn.name, drawn.rank, drawn.unit, len(drawn.x), int(drawn.is_whole)] for drawn in series]


def _numbers(value: Any) -> tuple[float, float, float, bool] | None:
    """Least, mean, largest, whether something is not finite; the least is infinite where all is, None is no number."""
    if isinstance(value, (bool, int, float)):
        try:
            number = float(value)
        except OverflowError:
            return None
        return (number, number, number, False) if isfinite(number) else (inf, 0.0, -inf, True)
    found = [facts.stats for facts in tensors(value) if facts.stats is not None]
    return _of_stats(found) if found else None


def _is_whole(value: Any) -> bool:
    """Whether a variable is an integer, or nothing but tensors of them."""
    if isinstance(value, int):
        return True
    return not isinstance(value, float) and all(is_whole(facts.dtype) for facts in tensors(value))


def _of_stats(every: list[Stats]) -> tuple[float, float, float, bool]:
    low = min((stats.min for stats in every if stats.min is not None), default=inf)
    high = max((stats.max for stats in every if stats.max is not None), default=-inf)
    means = [stats.mean for stats in every if stats.mean is not None and isfinite(stats.mean)]
    mean = sum(mean / len(means) for mean in means) if means else low / 2 + high / 2 if low <= high else 0.0
    return low, mean, high, any(stats.nan or stats.inf for stats in every)


def _add(drawn: DrawnSeries, x: int, numbers: tuple[float, float, float, bool], row: int) -> None:
    low, mean, high, is_odd = numbers
    is_known = low <= high
    point = (low, mean, high) if is_known else (None, None, None)
    if not drawn.x or drawn.x[-1] != x:
        for column, number in zip((drawn.low, drawn.mean, drawn.high), point, strict=True):
            column.append(number)
        drawn.x.append(x)
        drawn.is_odd.append(int(is_odd))
        drawn.rows.append(row)
        return
    # The last change of a step is the one that stays; the band holds all of them.
    before_low, before_high = drawn.low[-1], drawn.high[-1]
    drawn.mean[-1] = mean if is_known else None
    if is_known:
        drawn.low[-1] = low if before_low is None else min(low, before_low)
        drawn.high[-1] = high if before_high is None else max(high, before_high)
    drawn.is_odd[-1] |= int(is_odd)
    drawn.rows[-1] = row
