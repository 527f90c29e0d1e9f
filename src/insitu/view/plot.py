"""Variables of a recorded run as a picture: a value, or the mean and range of a tensor, over the steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from typing import TYPE_CHECKING, Any

from insitu.errors import ChoiceError, MissingError, StoreError
from insitu.view.value import safe

if TYPE_CHECKING:
    from insitu.trace.curve import Curve

SUFFIXES = (".png", ".pdf", ".svg")
MOST_LARGE = 12  # variables that are drawn one below the other; more of them are small and side by side
MOST = 400  # variables in one picture
MOST_POINTS = 4000  # of a curve
LONGEST_TITLE = 42  # characters above a small drawing
RED = "#d62728"
INKS = ("C0", "C1", "C2", "C4", "C5", "C6", "C7", "C8", "C9")  # all but red, which is for NaN


@dataclass(frozen=True)
class Sheet:
    """How a picture is divided: rows and columns of drawings, and the size of each in inches."""

    rows: int
    columns: int
    width: float
    height: float

    @classmethod
    def of(cls, count: int) -> Sheet:
        """A few drawings are one below the other; many are small, in about as many rows as columns.

        >>> Sheet.of(3).columns, Sheet.of(100).columns
        (1, 6)
        """
        if count <= MOST_LARGE:
            return cls(count, 1, 8, 2.5)
        columns = min(8, ceil((count / 3) ** 0.5))
        return cls(ceil(count / columns), columns, 3, 1.5)

    @property
    def is_small(self) -> bool:
        """Whether the drawings are too small for a legend."""
        return self.columns > 1


def check(path: str | os.PathLike[str], count: int = 1) -> None:
    """Raise the error that `draw` would raise for a file of this name and a picture of `count` variables."""
    if os.path.splitext(path)[1].lower() not in SUFFIXES:
        raise ChoiceError(f"{os.fspath(path)!r} does not end in one of {', '.join(map(repr, SUFFIXES))}")
    if not 0 < count <= MOST:
        raise ChoiceError(f"{count} variables do not fit into one picture: name 1 to {MOST} of them")
    _matplotlib()


def draw(curves: Mapping[str, Sequence[Curve]], path: str | os.PathLike[str]) -> None:
    """Draw variables over the steps into a .png, .pdf or .svg; needs matplotlib.

    Each rank is a line. For tensors the line is the mean, in a band from the least value to the largest. Red ticks at
    the foot mark steps with a NaN or an Inf. Variables without numbers, such as texts, are left out. More than 12
    variables are small drawings side by side.
    """
    check(path, len(curves))
    drawn = {name: [line.reduced(MOST_POINTS) for line in lines] for name, lines in curves.items() if lines}
    if not drawn:
        raise ChoiceError(f"{', '.join(map(repr, curves))}: no numbers, and nothing to draw")
    sheet = Sheet.of(len(drawn))
    size = (sheet.columns * sheet.width, 1 + sheet.rows * sheet.height)
    figure = _matplotlib().Figure(figsize=size, layout="constrained")
    axes = figure.subplots(sheet.rows, sheet.columns, sharex=True, squeeze=False).ravel()
    for axis, (name, lines) in zip(axes, drawn.items(), strict=False):
        _draw(axis, name, lines, sheet)
    for axis in axes[len(drawn) :]:
        axis.set_axis_off()
    for axis in axes[max(0, len(drawn) - sheet.columns) : len(drawn)]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("step")
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise StoreError(f"{os.fspath(path)!r} cannot be written: {error.strerror or error}") from error


def _matplotlib() -> Any:
    """Matplotlib's figures without pyplot, which would choose a window system and keep every figure."""
    try:
        return import_module("matplotlib.figure")
    except ImportError:
        raise MissingError("drawing needs matplotlib: pip install matplotlib") from None


def _draw(axis: Any, name: str, lines: Sequence[Curve], sheet: Sheet) -> None:
    axis.set_title(_title(name, sheet), loc="left", fontsize="x-small" if sheet.is_small else "medium")
    for curve in lines:
        _draw_curve(axis, curve)
    odd = sorted({int(step) for curve in lines for step in curve.odd})
    if odd:
        _draw_ticks(axis, odd)
    _scale(axis, lines)
    if sheet.is_small:
        axis.tick_params(labelsize="xx-small")
    elif len(lines) > 1 or odd:
        axis.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1.02), frameon=False)


def _title(name: str, sheet: Sheet) -> str:
    """The path; above a small drawing its end, which tells it from the others."""
    text = safe(name) or "(root)"
    if sheet.is_small and len(text) > LONGEST_TITLE:
        text = f"…{text[1 - LONGEST_TITLE :]}"
    return text.replace("$", r"\$")


def _draw_curve(axis: Any, curve: Curve) -> None:
    """The line of a rank, with dots where there are few steps, and the band around it."""
    style = {"color": INKS[curve.rank % len(INKS)], "linewidth": 1.2, "label": f"rank {curve.rank}"}
    if len(curve.steps) < 40:
        style["marker"] = "."
    axis.plot(curve.steps, curve.mean, **style)
    if not curve.is_flat:
        band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
        axis.fill_between(curve.steps, curve.low, curve.high, **band)


def _draw_ticks(axis: Any, steps: list[int]) -> None:
    """Red ticks at the foot for steps with a NaN or an Inf."""
    foot = axis.get_xaxis_transform()  # steps across, and 0 to 1 upward
    ticks = {"color": RED, "markersize": 12, "markeredgewidth": 2, "label": "NaN or Inf"}
    axis.plot(steps, [0.03] * len(steps), "|", transform=foot, **ticks)


def _scale(axis: Any, lines: Sequence[Curve]) -> None:
    """Whole steps on the x axis, and numbers without an offset on the y axis."""
    axis.xaxis.get_major_locator().set_params(integer=True)
    style = "sci"
    if all(curve.is_whole for curve in lines):
        style = "plain"
    axis.ticklabel_format(useOffset=False, style=style)
    axis.margins(x=0.02)
    axis.grid(alpha=0.25)
