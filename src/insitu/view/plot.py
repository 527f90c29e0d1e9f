"""A variable of a recorded run as a picture: its value, or the mean and range of a tensor, over the steps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf, isfinite
from typing import Any, Protocol

from insitu.errors import ChoiceError, MissingError, StoreError
from insitu.view.value import safe

SUFFIXES = (".png", ".pdf", ".svg")
INTEGERS = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
MOST = 12  # variables in one picture
RED = "#d62728"
INKS = ("C0", "C1", "C2", "C4", "C5", "C6", "C7", "C8", "C9")  # all but red, which is for NaN


class PlottedSeries(Protocol):
    """A variable, as the store gives it: an array or a Python value for each time it was seen."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def steps(self) -> Any: ...
    @property
    def ranks(self) -> Any: ...
    @property
    def times(self) -> Any: ...
    @property
    def values(self) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


@dataclass(slots=True)
class Curve:
    """One rank of a variable: a point for each step; `mean` is None where a value has no finite number in it.

    `low` and `high` are those of the finite numbers of the step, None where there is none.
    """

    rank: int
    steps: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    mean: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    odd: list[int] = field(default_factory=list)  # the steps with a NaN or an Inf
    is_whole: bool = False  # all of it is integers

    @property
    def is_flat(self) -> bool:
        """Whether each step has one value, and so no range."""
        return self.low == self.high


def curves(series: PlottedSeries) -> list[Curve]:
    """The points of a variable, rank by rank; what it was several times in a step is one point. A text has none.

    >>> class Loss:
    ...     name, dtype, shape = "loss", "float64", ()
    ...     values = [3.0, float("nan"), 1.0]
    >>> import array
    >>> Loss.steps, Loss.ranks, Loss.times = (array.array("d", row) for row in ([0, 1, 2], [0, 0, 0], [5, 6, 7]))
    >>> curve, = curves(Loss())
    >>> curve.mean, curve.odd
    ([3.0, None, 1.0], [1])
    """
    points: dict[tuple[int, int], _Point] = {}
    rows = zip(series.ranks.tolist(), series.steps.tolist(), series.times.tolist(), _each(series), strict=True)
    for rank, step, time, value in rows:
        number = _numbers(value)
        if number is not None:
            points.setdefault((int(rank), int(step)), _Point(time)).add(*number)
    return _joined(points, is_whole=series.dtype in INTEGERS or _are_integers(series))


def _are_integers(series: PlottedSeries) -> bool:
    """Whether Python values are all integers."""
    if series.dtype != "json":
        return False
    values = series.values
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    return kind in ("i", "u") if kind is not None else all(type(value) is int for value in values)


def _each(series: PlottedSeries) -> Iterable[Any]:
    """The values: numbers at once, tensors one at a time, for all of them may be larger than the memory."""
    values: Iterable[Any] = series.values if series.shape == () else series
    return values


@dataclass(slots=True)
class _Point:
    time: float
    low: float = inf
    high: float = -inf
    mean: float = 0.0
    count: int = 0
    is_odd: bool = False
    is_broken: bool = False  # one of the values has no finite number in it

    def add(self, low: float, high: float, mean: float, count: int, is_odd: bool) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.count += count
        if count:  # shares, for the sum may be too large for a float
            self.mean = self.mean * (1 - count / self.count) + mean * (count / self.count)
        self.is_odd |= is_odd
        self.is_broken |= is_odd and not count


def _joined(points: dict[tuple[int, int], _Point], *, is_whole: bool) -> list[Curve]:
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


def _numbers(value: Any) -> tuple[float, float, float, int, bool] | None:
    """Least, largest, mean and count of the finite numbers, and whether there are others; None for no number."""
    if isinstance(value, (bool, int, float, complex)):
        return _number(value)
    if not hasattr(value, "dtype"):
        return None
    try:
        flat = (abs(value) if value.dtype.kind == "c" else value).astype("float64").ravel()
    except (TypeError, ValueError):
        return None
    finite = flat[abs(flat) < inf]
    if not finite.size:
        return inf, -inf, 0.0, 0, bool(flat.size)
    mean = float((finite / finite.size).sum())
    return float(finite.min()), float(finite.max()), mean, int(finite.size), finite.size < flat.size


def _number(value: complex) -> tuple[float, float, float, int, bool] | None:
    try:
        number = abs(value) if isinstance(value, complex) else float(value)
    except OverflowError:
        return None
    return (number, number, number, 1, False) if isfinite(number) else (inf, -inf, 0.0, 0, True)


def check(path: str | os.PathLike[str]) -> None:
    """Raise what `draw` would, if no picture can be made or have this name."""
    if os.path.splitext(path)[1].lower() not in SUFFIXES:
        raise ChoiceError(f"{os.fspath(path)!r} does not end in one of {', '.join(map(repr, SUFFIXES))}")
    _matplotlib()


def draw(variables: Sequence[PlottedSeries], path: str | os.PathLike[str]) -> None:
    """Draw variables over the steps, one below the other, into a .png, .pdf or .svg; needs matplotlib.

    A line for each rank; for tensors it is the mean, in a band from the least value to the largest. Red ticks at the
    foot are steps with a NaN or an Inf. What is no number, as a text, is left out.
    """
    check(path)
    if not 0 < len(variables) <= MOST:
        raise ChoiceError(f"{len(variables)} variables do not fit into one picture: name 1 to {MOST} of them")
    found = {series.name: lines for series in variables if (lines := curves(series))}
    if not found:
        raise ChoiceError(f"{', '.join(repr(series.name) for series in variables)}: no numbers, and nothing to draw")
    figure = _matplotlib().Figure(figsize=(8, 1 + 2.5 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, lines) in zip(axes, found.items(), strict=True):
        _draw(axis, name, lines)
    axes[-1].set_xlabel("step")
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise StoreError(f"{os.fspath(path)!r} cannot be written: {error.strerror or error}") from error


def _matplotlib() -> Any:
    """Its figures without pyplot, which would choose a window system and keep every figure."""
    try:
        return import_module("matplotlib.figure")
    except ImportError:
        raise MissingError("drawing needs matplotlib: pip install matplotlib") from None


def _draw(axis: Any, name: str, lines: list[Curve]) -> None:
    axis.set_title(safe(name).replace("$", r"\$") or "(root)", loc="left", fontsize="medium")
    for curve in lines:
        color = INKS[curve.rank % len(INKS)]
        mean = _gaps(curve.mean)
        marker = "." if len(curve.steps) < 40 else None
        axis.plot(curve.steps, mean, color=color, linewidth=1.2, marker=marker, label=f"rank {curve.rank}")
        if not curve.is_flat:
            axis.fill_between(curve.steps, _gaps(curve.low), _gaps(curve.high), color=color, alpha=0.2, linewidth=0)
    odd = sorted({step for curve in lines for step in curve.odd})
    if odd:
        foot = axis.get_xaxis_transform()  # steps across, and 0 to 1 upward
        ticks = {"color": RED, "markersize": 12, "markeredgewidth": 2, "label": "NaN or Inf"}
        axis.plot(odd, [0.03] * len(odd), "|", transform=foot, **ticks)
    _scale(axis, lines)
    if len(lines) > 1 or odd:
        axis.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1.02), frameon=False)


def _scale(axis: Any, lines: list[Curve]) -> None:
    """Whole steps across, and upward the numbers themselves rather than what they are more than another."""
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.ticklabel_format(useOffset=False, style="plain" if all(curve.is_whole for curve in lines) else "sci")
    axis.margins(x=0.02)
    axis.grid(alpha=0.25)


def _gaps(numbers: list[float | None]) -> list[float]:
    return [float("nan") if number is None else number for number in numbers]
