"""Curves and bands of variables: joining values of a step, fewer points, growing, and the norms of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from insitu.trace.curve import Band, BandCurve, Curve, Numbers, curves_of

NAN, INF = float("nan"), float("inf")


def curve(values: Sequence[float], steps: Sequence[int] | None = None) -> Curve:
    place = np.arange(len(values)) if steps is None else np.array(steps)
    return Curve.of_points(0, place, place * 1.0, Numbers.of_numbers(np.array(values, np.float64)))


def random_curve(count: int) -> Curve:
    values = np.random.default_rng(0).standard_normal(count)
    values[count // 3] = NAN
    return curve(values.tolist())


def test_fewer_points_keep_the_least_and_the_largest_number() -> None:
    whole = random_curve(10_000)
    few = whole.reduced(100)
    assert len(few) <= 100 and few.width == 128 and few.weight.sum() == 10_000
    assert np.nanmin(few.low) == np.nanmin(whole.low) and np.nanmax(few.high) == np.nanmax(whole.high)
    assert (few.odd_steps, few.first_odd, few.last_step) == (1, 3333, 9999)
    assert few.odd.tolist() == [3333 // 128 * 128]
    assert few.mean[0] == pytest.approx(whole.mean[:128].mean())


def test_a_curve_with_few_points_stays_as_it_is() -> None:
    sparse = curve([1.0, 2.0, 3.0], steps=[0, 10**6, 10**9])
    assert sparse.reduced(3).width == 1 and sparse.reduced(3).steps.tolist() == [0, 10**6, 10**9]
    assert len(curve([]).reduced(10)) == 0


def test_points_of_all_curves_of_a_width_are_at_the_same_steps() -> None:
    early, late = curve([1.0] * 1000), curve([1.0] * 900, steps=list(range(100, 1000)))
    assert set(late.reduced(100).steps.tolist()[1:]) <= set(early.reduced(100).steps.tolist())


def test_a_curve_that_begins_inside_of_a_range_begins_at_its_first_step() -> None:
    assert curve([1.0] * 10, steps=list(range(5, 15))).reduced(3).steps.tolist() == [5, 8, 12]


@pytest.mark.parametrize("cut", [0, 1, 777, 4096, 9999, 10_000])
def test_a_curve_that_grows_becomes_the_whole_curve(cut: int) -> None:
    whole = random_curve(10_000)
    parts = [curve(whole.mean[here].tolist(), whole.steps[here].tolist()) for here in (slice(cut), slice(cut, None))]
    # NaN of the whole is a value that is not finite in the parts, too.
    grown, expected = parts[0].reduced(200).extended(parts[1], 200), whole.reduced(200)
    assert grown.width == expected.width and grown.steps.tolist() == expected.steps.tolist()
    for name in ("low", "mean", "high", "std", "norm"):
        assert getattr(grown.numbers, name) == pytest.approx(getattr(expected.numbers, name), nan_ok=True), name
    assert (grown.odd_steps, grown.first_odd, grown.last_step) == (1, 3333, 9999)


def test_common_points_end_at_the_first_difference() -> None:
    one = curve([1.0, NAN, 3.0])
    assert one.common_points(curve([1.0, NAN, 3.0, 4.0])) == 3
    assert one.common_points(curve([1.0, NAN, 3.5])) == 2
    assert one.common_points(curve([1.0, 2.0, 3.0])) == 1
    assert one.common_points(curve([1.0] * 9).reduced(3)) == 0


def test_values_of_one_step_are_one_point_with_the_elements_of_all() -> None:
    steps, ranks = np.array([3, 3, 4]), np.zeros(3, int)
    parts = [np.array([[1.0, 2.0]]), np.array([[3.0, 6.0, 0.0, NAN]])]
    numbers = Numbers.stacked([*map(Numbers.of_tensors, parts), Numbers.of_tensors(np.array([[INF]]))])
    (joined,) = curves_of(steps, ranks, np.zeros(3), numbers)
    every = np.array([1.0, 2.0, 3.0, 6.0, 0.0])
    assert joined.steps.tolist() == [3, 4] and joined.odd.tolist() == [3, 4]
    assert joined.mean[0] == pytest.approx(every.mean()) and joined.numbers.std[0] == pytest.approx(every.std())
    assert joined.numbers.norm[0] == pytest.approx(np.linalg.norm(every)) and np.isnan(joined.mean[1])
    assert (joined.numbers.count[0], joined.numbers.nan[0], joined.numbers.zeros[0]) == (5, 1, 1)


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_the_norm_from_statistics_is_that_of_the_elements(scale: float) -> None:
    values = np.random.default_rng(0).standard_normal((1, 1000)) * scale
    values[0, :3] = [NAN, INF, 0.0]
    exact = Numbers.of_tensors(values)
    named = {"count": 1000, "min": exact.low, "max": exact.high, "mean": exact.mean, "std": exact.std}
    named |= {"nan": exact.nan, "inf": exact.inf, "zeros": exact.zeros}
    from_statistics = Numbers.of_statistics({name: np.atleast_1d(value) for name, value in named.items()})
    assert exact.norm[0] == pytest.approx(np.linalg.norm(values[0, 2:] / scale) * scale)
    assert from_statistics.norm[0] == pytest.approx(exact.norm[0])


def test_bands_join_equal_texts_and_reduce_to_few() -> None:
    steady = BandCurve.of_texts(0, range(6), ["a", "a", "b", "b", "b", "a"])
    assert [(band.first, band.last, band.text) for band in steady.bands] == [(0, 1, "a"), (2, 4, "b"), (5, 5, "a")]
    restless = BandCurve.of_texts(0, range(10_000), [f"text {number % 7}" for number in range(10_000)])
    few = restless.reduced(50)
    assert len(few.bands) <= 50 and few.bands[0].count == 7 and few.bands[0].text.startswith("text 0, text 1")
    assert (few.bands[0].first, few.bands[-1].last) == (0, 9999)


def test_the_last_text_of_a_step_counts() -> None:
    assert BandCurve.of_texts(0, [3, 3], ["a", "b"]).bands == (Band(3, 3, "b"),)


def test_bands_that_grow_keep_a_text_that_stays_as_one_band() -> None:
    first, later = BandCurve.of_texts(0, [0, 1], ["a", "b"]), BandCurve.of_texts(0, [2, 3], ["b", "c"])
    assert first.extended(later, 9).bands == (Band(0, 0, "a"), Band(1, 2, "b"), Band(3, 3, "c"))
    assert first.before(1).bands == (Band(0, 0, "a"),)
