"""Arrays as planes of bytes: read back, they are the values, or what a reduced picture says it shows."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy
import pytest

from insitu.trace.kept_values import difference_of, real_numbers
from insitu.trace.planes import Form, Planes, is_image, plane_layout, planes

nan, inf = float("nan"), float("inf")


def read(found: Planes) -> Any:
    """The cells of some planes, as the page reads them."""
    layout = found.layout
    shape = (*layout.leading, layout.rows, layout.columns)
    if found.form != "levels":
        floats = numpy.frombuffer(found.data, {"half": "<f2", "single": "<f4"}[found.form])
        return floats.astype("f8").reshape(shape) * found.scale
    codes = numpy.frombuffer(found.data, "u1").reshape(shape)
    values = found.low + codes * found.step
    return numpy.select([codes == 255, codes == 254, codes == 253], [nan, inf, -inf], values)


def planes_of(array: Any, form: Form = "single", side: int = 256, cells: int = 2**18) -> Planes:
    numbers = real_numbers(numpy.asarray(array))
    assert numbers is not None
    return planes(numbers, plane_layout(numbers.shape, most_side=side, most_cells=cells), form)


RANDOM = numpy.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype("f4")


@pytest.mark.parametrize(
    "array",
    [
        RANDOM,
        RANDOM.astype("f8") * 1e300,
        RANDOM * 1e-30,
        numpy.array([nan, inf, -inf, 0.0, -2.5]),
        numpy.array([[nan]]),
        numpy.zeros((3, 3)),
        numpy.array([True, False]),
        numpy.array([[-128, 124]], "i1"),
        numpy.array([2**63 - 5, 2**63 - 1], "u8"),
        numpy.array([0.8e308, -0.8e308, 0.0]),
        numpy.array([3 + 4j, 0]),
        numpy.array([], "f4"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
@pytest.mark.parametrize(("form", "parts"), [("single", 1e-7), ("half", 1e-3), ("levels", 1 / 252)])
def test_the_values_come_back_as_exactly_as_the_form_says(array: Any, form: Form, parts: float) -> None:
    found = planes_of(array, form)
    numbers = numpy.asarray(real_numbers(array), "f8").reshape(read(found).shape)
    finite = numbers[numpy.isfinite(numbers)]
    width = 0.0
    if finite.size:
        width = float(numpy.abs(finite).max()) * 2
    if found.is_exact:
        parts = 1e-15
    numpy.testing.assert_allclose(read(found), numbers, rtol=parts, atol=width * parts)
    assert len(found.data) == {"levels": 1, "half": 2, "single": 4}[found.form] * found.layout.cells


def test_exactness_is_known() -> None:
    assert planes_of(RANDOM).is_exact and not planes_of(RANDOM, "half").is_exact
    assert not planes_of(RANDOM, "levels").is_exact and not planes_of(RANDOM.astype("f8") / 3).is_exact
    whole = planes_of(numpy.arange(20), "single")
    assert whole.is_exact and whole.form == "levels" and whole.step == 1.0
    assert not planes_of(numpy.array([2**53 + 1, 2**53 + 3])).is_exact
    assert not planes_of(numpy.array([5e-324, 1e-323]), "levels").is_exact


def test_a_reduced_plane_shows_the_value_farthest_from_zero() -> None:
    array = numpy.ones((10, 9), "f4")
    array[3, 4], array[9, 8], array[0, 0] = -7.0, nan, inf
    found = planes_of(array, side=5)
    assert (found.layout.block_rows, found.layout.block_columns, found.layout.pooling) == (2, 2, "farthest")
    cells = read(found)
    assert cells.shape == (5, 5) and cells[1, 2] == -7.0 and numpy.isnan(cells[4, 4]) and cells[0, 0] == inf
    assert cells[2, 2] == 1.0


def test_a_long_row_keeps_the_least_and_the_largest_of_each_block() -> None:
    found = planes_of(numpy.arange(-600.0, 600.0))
    low, high = read(found)
    assert found.layout.pooling == "range" and found.layout.block_columns == 3
    assert (low[0], high[0], low[-1], high[-1]) == (-600.0, -598.0, 597.0, 599.0)


@pytest.mark.parametrize(
    "shape", [(64, 256, 56, 56), (50257, 768), (3,), (2, 0), (4, 3, 2, 5, 9), (1, 1), (10_000, 1, 4), (7, 100_000)]
)
def test_a_layout_keeps_to_its_size(shape: tuple[int, ...]) -> None:
    layout = plane_layout(shape, most_side=256, most_cells=2**18)
    assert layout.cells <= max(2**18, 64 * prod(layout.leading))
    assert layout.rows * layout.block_rows >= (shape[-2] if len(shape) > 1 else 1)
    assert layout.columns * layout.block_columns >= shape[-1]
    assert max(layout.rows, layout.columns) <= 512 and prod(layout.leading) <= 256


def test_the_innermost_dimensions_stay_whole() -> None:
    assert plane_layout((64, 16, 5, 5), most_side=256, most_cells=2**18).leading == (16, 16)
    assert plane_layout((9, 1000, 5, 5), most_side=256, most_cells=2**18).leading == (1, 256)


def test_images_are_recognized_and_reduced_to_means() -> None:
    image = numpy.zeros((3, 32, 32), "u1")
    image[:, ::2] = 200
    assert is_image(image) and is_image(image / 255)
    assert not is_image(image.astype("i8")) and not is_image(image[:, :8]) and not is_image(image[0])
    assert not is_image(image / 2.0) and not is_image(image / numpy.nan)
    layout = plane_layout((3, 32, 32), most_side=16, most_cells=2**18, pooling="mean")
    assert set(read(planes(image, layout, "single")).ravel()) == {100.0}


def test_a_difference_of_integers_is_exact_and_equal_nan_do_not_differ() -> None:
    large = difference_of(numpy.array([2**63 - 1]), numpy.array([2**63 - 3]))
    assert large is not None and large.tolist() == [2.0] and large.dtype == "float64"
    odd = difference_of(numpy.array([nan, inf, nan, 1.0]), numpy.array([nan, inf, 0.0, -inf]))
    assert odd is not None and odd[:2].tolist() == [0, 0] and numpy.isnan(odd[2]) and odd[3] == inf
    turned = difference_of(numpy.array([1j]), numpy.array([1.0]))
    assert turned is not None and turned[0] == pytest.approx(2**0.5)
    assert difference_of(numpy.array(["a"]), numpy.array([1])) is None
    assert difference_of(numpy.array([True]), numpy.array([False])).tolist() == [1.0]  # type: ignore[union-attr]
