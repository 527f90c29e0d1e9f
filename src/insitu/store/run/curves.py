"""The curves of a series: for each rank, the mean and the range of its numbers over the steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from insitu.store.stored_type import JSON
from insitu.trace.dtype import dtype_named
from insitu.trace.run import Curve

if TYPE_CHECKING:
    from insitu.store.run.series import Series


def curves(series: Series) -> list[Curve]:
    """The points of a series, rank by rank. Several values in one step are one point; a value that is text has none."""
    points: dict[tuple[int, int], _Point] = {}
    rows = zip(series.ranks.tolist(), series.steps.tolist(), series.times.tolist(), _values(series), strict=True)
    for rank, step, time, value in rows:
        numbers = _finite_numbers(value)
        if numbers is not None:
            points.setdefault((rank, step), _Point(time)).add(numbers)
    return _curves(points, is_whole=dtype_named(series.dtype).is_integer or _are_integers(series))


def _values(series: Series) -> Iterable[Any]:
    """The values: numbers at once, tensors one at a time, because all of them may not fit into memory."""
    values: Iterable[Any] = series.values if series.shape == () else series
    return values


def _are_integers(series: Series) -> bool:
    """Whether all values are Python integers."""
    if series.dtype != JSON:
        return False
    dtype = getattr(series.values, "dtype", None)
    if dtype is not None:
        return dtype.kind in "iu"
    return all(type(value) is int for value in series.values)


@dataclass(frozen=True, slots=True)
class _FiniteNumbers:
    """The finite numbers of one value, and whether it has others."""

    low: float = inf
    high: float = -inf
    mean: float = 0.0
    count: int = 0
    has_others: bool = False


@dataclass(slots=True)
class _Point:
    """All values of one step and rank."""

    time: float
    low: float = inf
    high: float = -inf
    mean: float = 0.0
    count: int = 0
    is_odd: bool = False
    is_broken: bool = False  # one of the values has no finite number

    def add(self, numbers: _FiniteNumbers) -> None:
        self.low, self.high = min(self.low, numbers.low), max(self.high, numbers.high)
        self.count += numbers.count
        self.is_odd |= numbers.has_others
        if numbers.count:  # a weighted mean, because the sum may be too large for a float
            share = numbers.count / self.count
            self.mean = self.mean * (1 - share) + numbers.mean * share
        else:
            self.is_broken |= numbers.has_others


def _curves(points: dict[tuple[int, int], _Point], *, is_whole: bool) -> list[Curve]:
    found: dict[int, Curve] = {}
    for (rank, step), point in sorted(points.items(), key=lambda item: item[0]):
        curve = found.setdefault(rank, Curve(rank, is_whole=is_whole))
        curve.steps.append(step)
        curve.times.append(point.time)
        curve.low.append(point.low if point.count else None)
        curve.mean.append(point.mean if point.count and not point.is_broken else None)
        curve.high.append(point.high if point.count else None)
        if point.is_odd:
            curve.odd.append(step)
    return list(found.values())


def _finite_numbers(value: Any) -> _FiniteNumbers | None:
    """The finite numbers of a value; None for a value that is not a number or an array of numbers."""
    if isinstance(value, (bool, int, float, complex)):
        return _one_number(value)
    if not hasattr(value, "dtype"):
        return None
    try:
        flat = (abs(value) if value.dtype.kind == "c" else value).astype("float64").ravel()
    except (TypeError, ValueError):
        return None
    finite = flat[abs(flat) < inf]
    if not finite.size:
        return _FiniteNumbers(has_others=bool(flat.size))
    mean = float((finite / finite.size).sum())
    return _FiniteNumbers(float(finite.min()), float(finite.max()), mean, finite.size, finite.size < flat.size)


def _one_number(value: complex) -> _FiniteNumbers | None:
    try:
        number = abs(value) if isinstance(value, complex) else float(value)
    except OverflowError:
        return None
    if not isfinite(number):
        return _FiniteNumbers(has_others=True)
    return _FiniteNumbers(number, number, number, 1)
