"""Small pictures: a curve, a chart with bands, a histogram. Each is an SVG in the address of an image.

As an image, an SVG survives the sanitizers of notebooks, which remove `<svg>`, and can run nothing. It does not know
the colours around it: those here can be told from a white and from a black background.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.view.notebook.markup import Markup, element
from insitu.view.run_table import sparkline

if TYPE_CHECKING:
    from insitu.trace.curve import Curve

INKS = ("#3b82f6", "#ea7317", "#8b5cf6", "#0f9d78", "#c04a9b", "#7a8899")
RED = "#e5484d"
SPARK_WIDTH, SPARK_HEIGHT = 140, 24
CHART_WIDTH, CHART_HEIGHT = 640, 170
BARS_WIDTH, BARS_HEIGHT = 140, 32
EDGE = 3  # pixels around a curve
FOOT = 12  # pixels below the curves of a chart, for the ticks
MOST_POINTS = 400  # of a curve: two for each pixel would not be seen
MOST_TICKS = 200

Point = tuple[float, float]


@dataclass(slots=True, frozen=True)
class Scale:
    """Maps numbers from `low` to `high` to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        """The pixel of a number; the middle where all numbers are the same."""
        half = self.high / 2 - self.low / 2  # halves, because the whole may be too large for a float
        if half <= 0:
            return (self.start + self.end) / 2
        return self.start + (number / 2 - self.low / 2) / half * (self.end - self.start)


def spark(means: Sequence[float | None]) -> Markup:
    """A small curve; a red tick where no number is finite, a dot at the last number."""
    known = [mean for mean in means if mean is not None]
    x = Scale(0, max(len(means) - 1, 1), EDGE, SPARK_WIDTH - EDGE)
    y = Scale(min(known, default=0.0), max(known, default=0.0), SPARK_HEIGHT - EDGE, EDGE)
    points = [(x(place), y(mean)) if mean is not None else None for place, mean in enumerate(means)]
    ticks = [x(place) for place, mean in enumerate(means) if mean is None]
    drawn = [_line(part, INKS[0]) for part in _parts(points)]
    last = next((point for point in reversed(points) if point is not None), None)
    if last is not None:
        drawn.append(_svg("circle", cx=last[0], cy=last[1], r=2.2, fill=INKS[0]))
    drawn += [_tick(tick, EDGE, SPARK_HEIGHT - EDGE) for tick in ticks]
    return _image(SPARK_WIDTH, SPARK_HEIGHT, drawn, sparkline(means) or "no numbers")


def chart(curves: Sequence[Curve], ends: tuple[float, float], steps: tuple[int, int], words: str) -> Markup:
    """The means of each rank as a line, in a band from the least to the largest number; red ticks for NaN and Inf."""
    x = Scale(*steps, EDGE, CHART_WIDTH - EDGE)
    y = Scale(*ends, CHART_HEIGHT - FOOT - EDGE, EDGE)
    drawn = [_rule(y(end)) for end in ends]
    for number, curve in enumerate(curves):
        drawn += _curve(_fewer(curve), x, y, INKS[number % len(INKS)])
    odd = sorted({step for curve in curves for step in curve.odd.tolist()})
    drawn += [_tick(x(step), CHART_HEIGHT - FOOT, CHART_HEIGHT) for step in _sample(odd, MOST_TICKS)]
    return _image(CHART_WIDTH, CHART_HEIGHT, drawn, words)


def _curve(points: Sequence[CurvePoint], x: Scale, y: Scale, ink: str) -> list[str]:
    """The band and the line of one rank."""
    drawn: list[str] = []
    for part in _parts([_band_point(point, x, y) for point in points]):
        edge = [(place, high) for place, _, high in part] + [(place, low) for place, low, _ in reversed(part)]
        drawn.append(_svg("polygon", points=_joined(edge), fill=ink, fill_opacity=0.22))
    means = [(x(point.step), y(point.mean)) if point.mean is not None else None for point in points]
    drawn += [_line(part, ink) for part in _parts(means)]
    if len(points) == 1 and means[0] is not None:
        drawn.append(_svg("circle", cx=means[0][0], cy=means[0][1], r=2.5, fill=ink))
    return drawn


@dataclass(slots=True, frozen=True)
class CurvePoint:
    """Some neighbouring steps of a curve: the first of them, the mean, the least and the largest number."""

    step: int
    low: float | None
    mean: float | None
    high: float | None


def _band_point(point: CurvePoint, x: Scale, y: Scale) -> tuple[float, float, float] | None:
    if point.low is None or point.high is None:
        return None
    return x(point.step), y(point.low), y(point.high)


def _fewer(curve: Curve) -> list[CurvePoint]:
    """The points of a curve, or of groups of neighbours where there are too many: no extreme is lost."""
    few = curve.reduced(MOST_POINTS)
    columns = [list(map(known, column.tolist())) for column in (few.low, few.mean, few.high)]
    return [CurvePoint(*point) for point in zip(few.steps.tolist(), *columns, strict=True)]


def known(number: float) -> float | None:
    """A number of a curve; None if it is not known."""
    if number != number:
        return None
    return number


def histogram(counts: Sequence[int], low: str, high: str) -> Markup:
    """The number of elements in equal bins from the least value to the largest."""
    width = BARS_WIDTH / max(len(counts), 1)
    y = Scale(0, max(counts, default=0), 0, BARS_HEIGHT)
    bars = [_bar(place * width, width, y(count)) for place, count in enumerate(counts) if count]
    words = f"histogram from {low} to {high}: {sparkline(counts)}"
    return _image(BARS_WIDTH, BARS_HEIGHT, [*bars, _rule(BARS_HEIGHT - 0.5, BARS_WIDTH)], words)


def _bar(place: float, width: float, height: float) -> str:
    height = max(height, 1.0)  # a bin with one element in a million can be seen
    return _svg("rect", x=place, y=BARS_HEIGHT - height, width=max(width - 1, 0.5), height=height, fill=INKS[0])


def _parts(points: Iterable[tuple[float, ...] | None]) -> list[list[tuple[float, ...]]]:
    """The stretches of points between those that are missing."""
    parts: list[list[tuple[float, ...]]] = [[]]
    for point in points:
        if point is None:
            parts.append([])
        else:
            parts[-1].append(point)
    return [part for part in parts if part]


def _line(points: Sequence[tuple[float, ...]], ink: str) -> str:
    if len(points) == 1:
        points = [points[0], points[0]]  # with round ends, a dot
    ends = {"stroke_linecap": "round", "stroke_linejoin": "round"}
    return _svg("polyline", points=_joined(points), fill="none", stroke=ink, stroke_width="1.5", **ends)


def _tick(x: float, top: float, bottom: float) -> str:
    return _svg("path", d=f"M{x:.1f} {top}V{bottom}", stroke=RED, stroke_width=1.5)


def _rule(y: float, width: float = CHART_WIDTH) -> str:
    """A faint line across the picture."""
    return _svg("path", d=f"M0 {y:.1f}H{width}", stroke="#888", stroke_opacity=0.45)


def _joined(points: Iterable[tuple[float, ...]]) -> str:
    return " ".join([f"{point[0]:.1f},{point[1]:.1f}" for point in points])


def _sample(items: Sequence[int], most: int) -> Sequence[int]:
    """The items, or some of them at even distances, the first and the last included."""
    if len(items) <= most:
        return items
    return [items[place * (len(items) - 1) // (most - 1)] for place in range(most)]


def _svg(name: str, **attributes: str | float) -> str:
    texts = [f' {key.replace("_", "-")}="{_number(item)}"' for key, item in attributes.items()]
    return f"<{name}{''.join(texts)}/>"


def _number(item: str | float) -> str:
    if isinstance(item, str):
        return item
    return f"{item:.2f}".rstrip("0").rstrip(".")


def _image(width: int, height: int, drawn: Iterable[str], words: str) -> Markup:
    """The picture, and the words for where it cannot be seen."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    text = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(drawn)}</svg>'
    address = f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"
    return element("img", src=address, width=width, height=height, alt=words)


def labelled_chart(picture: Markup, ends: tuple[str, str], steps: tuple[str, str]) -> Markup:
    """A chart between its labels: the largest and the least number beside it, the first and the last step below it."""
    (low, high), (first, last) = ends, steps
    rows = [
        element("tr", element("td", high, class_="i-right"), element("td", picture, rowspan=2, colspan=2)),
        element("tr", element("td", low, class_="i-right i-low")),
        element(
            "tr",
            element("td", "step", class_="i-right i-grey"),
            element("td", first, class_="i-grey"),
            element("td", last, class_="i-right i-grey"),
        ),
    ]
    return element("table", element("tbody", *rows), class_="i-chart")
