"""Pictures: what they draw, and that numbers of any size fit."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from insitu.trace.curve import Curve, Numbers
from insitu.view.notebook.picture import MOST_POINTS, RED, chart, histogram, spark

SVG = "{http://www.w3.org/2000/svg}"


def drawing(image: str) -> ElementTree.Element:
    """The SVG in the address of an image."""
    address = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', image)
    assert address is not None
    return ElementTree.fromstring(base64.b64decode(address[1]))


def points(element: ElementTree.Element) -> list[list[float]]:
    return [[float(number) for number in point.split(",")] for point in element.attrib["points"].split()]


def inside(svg: ElementTree.Element) -> bool:
    """Whether all points are in the picture."""
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    found = [point for each in svg if "points" in each.attrib for point in points(each)]
    return all(0 <= x <= width and 0 <= y <= height for x, y in found)


def test_a_spark_goes_from_the_least_to_the_largest_and_marks_gaps() -> None:
    svg = drawing(spark([0.0, 5.0, None, 10.0]))
    lines = svg.findall(f"{SVG}polyline")
    assert [len(points(line)) for line in lines] == [2, 2]
    assert points(lines[0])[0][1] > points(lines[0])[1][1] > points(lines[1])[0][1]
    assert len([tick for tick in svg.findall(f"{SVG}path") if tick.attrib["stroke"] == RED]) == 1


@pytest.mark.parametrize("means", [[], [1.0], [None], [2.0, 2.0], [-1.7e308, 1.7e308], [5e-324, 0.0]])
def test_numbers_of_any_size_are_in_the_picture(means: list[float | None]) -> None:
    assert inside(drawing(spark(means)))


def test_the_words_of_a_spark_are_the_curve_as_text() -> None:
    assert 'alt="▁▄·█"' in spark([0.0, 3.0, None, 7.0]) and 'alt="no numbers"' in spark([])


def curve(count: int, rank: int = 0, *, nan_at: int | None = None) -> Curve:
    """A curve of tensors with -1 and 1; at one step all of it is NaN, between these numbers."""
    values = np.tile([-1.0, 1.0], (count, 1))
    numbers = Numbers.of_tensors(values)
    if nan_at is not None:
        numbers.mean[nan_at], numbers.nan[nan_at] = np.nan, 1
    return Curve.of_points(rank, np.arange(count), np.zeros(count), numbers)


def test_a_chart_has_a_line_and_a_band_for_each_rank_and_ticks_for_nan() -> None:
    first, second = curve(10, nan_at=4), curve(10, rank=1)
    svg = drawing(chart([first, second], (-1.0, 1.0), (0, 9), "words"))
    assert len(svg.findall(f"{SVG}polygon")) == 2 and len(svg.findall(f"{SVG}polyline")) == 3
    assert len([tick for tick in svg.findall(f"{SVG}path") if tick.attrib["stroke"] == RED]) == 1
    assert inside(svg)


def test_a_long_curve_keeps_its_extremes() -> None:
    long = curve(100_000)
    long.high[77_777] = 9.0
    svg = drawing(chart([long], (-1.0, 9.0), (0, 99_999), "words"))
    (band,) = svg.findall(f"{SVG}polygon")
    assert len(points(band)) <= 2 * MOST_POINTS
    assert min(y for _, y in points(band)) == pytest.approx(3.0)  # the edge of the picture: 9


def test_a_histogram_shows_bins_with_one_element_in_a_million() -> None:
    svg = drawing(histogram([1_000_000, 0, 1], "0", "1"))
    assert len(svg.findall(f"{SVG}rect")) == 2
    assert all(float(bar.attrib["height"]) >= 1 for bar in svg.findall(f"{SVG}rect"))


def test_an_empty_histogram_has_no_bars() -> None:
    assert drawing(histogram([0, 0], "0", "0")).findall(f"{SVG}rect") == []
