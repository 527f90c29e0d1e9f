"""A variable of a recorded run as a picture: its value, or the mean and range of a tensor, over the steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from insitu.errors import ChoiceError, MissingError, StoreError
from insitu.trace.run import Curve
from insitu.view.number import number_or_nan
from insitu.view.value import safe

SUFFIXES = (".png", ".pdf", ".svg")
MOST = 12  # variables in one picture
RED = "#d62728"
INKS = ("C0", "C1", "C2", "C4", "C5", "C6", "C7", "C8", "C9")  # all but red, which is for NaN


def check(path: str | os.PathLike[str], count: int = 1) -> None:
    """Raise the error that `draw` would raise for a file of this name and a picture of `count` variables."""
    if os.path.splitext(path)[1].lower() not in SUFFIXES:
        raise ChoiceError(f"{os.fspath(path)!r} does not end in one of {', '.join(map(repr, SUFFIXES))}")
    if not 0 < count <= MOST:
        raise ChoiceError(f"{count} variables do not fit into one picture: name 1 to {MOST} of them")
    _matplotlib()


def draw(curves: Mapping[str, Sequence[Curve]], path: str | os.PathLike[str]) -> None:
    """Draw variables over the steps, one below the other, into a .png, .pdf or .svg; needs matplotlib.

    Each rank is a line. For tensors the line is the mean, in a band from the least value to the largest. Red ticks at
    the foot mark steps with a NaN or an Inf. Variables without numbers, such as texts, are left out.
    """
    check(path, len(curves))
    drawn = {name: lines for name, lines in curves.items() if lines}
    if not drawn:
        raise ChoiceError(f"{', '.join(map(repr, curves))}: no numbers, and nothing to draw")
    figure = _matplotlib().Figure(figsize=(8, 1 + 2.5 * len(drawn)), layout="constrained")
    axes = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, lines) in zip(axes, drawn.items(), strict=True):
        _draw(axis, name, lines)
    axes[-1].set_xlabel("step")
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


def _draw(axis: Any, name: str, lines: Sequence[Curve]) -> None:
    axis.set_title(safe(name).replace("$", r"\$") or "(root)", loc="left", fontsize="medium")
    for curve in lines:
        _draw_curve(axis, curve)
    odd = sorted({step for curve in lines for step in curve.odd})
    if odd:
        _draw_ticks(axis, odd)
    _scale(axis, lines)
    if len(lines) > 1 or odd:
        axis.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1.02), frameon=False)


def _draw_curve(axis: Any, curve: Curve) -> None:
    """The line of a rank, with dots where there are few steps, and the band around it."""
    style = {"color": INKS[curve.rank % len(INKS)], "linewidth": 1.2, "label": f"rank {curve.rank}"}
    if len(curve.steps) < 40:
        style["marker"] = "."
    axis.plot(curve.steps, _gaps(curve.mean), **style)
    if not curve.is_flat:
        band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
        axis.fill_between(curve.steps, _gaps(curve.low), _gaps(curve.high), **band)


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


def _gaps(numbers: list[float | None]) -> list[float]:
    return list(map(number_or_nan, numbers))
