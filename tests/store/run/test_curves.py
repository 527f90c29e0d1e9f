"""The curves of a series: their points, and which steps have no mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.store.rows import Rows

from insitu.store.run.curves import curves

NAN, INF = float("nan"), float("inf")


def test_point_of_curve_has_mean_and_range_of_finite_values() -> None:
    (curve,) = curves(Rows([(3, 0, np.array([1.0, NAN, 5.0])), (4, 0, np.array([-INF])), (5, 0, np.empty(0))]))
    assert (curve.rank, curve.steps, curve.low, curve.mean, curve.high) == (
        0,
        [3, 4, 5],
        [1.0, None, None],
        [3.0, None, None],
        [5.0, None, None],
    )
    assert curve.odd == [3, 4] and not curve.is_flat


def test_mean_of_very_large_values_does_not_overflow() -> None:
    most = np.finfo(np.float64).max
    (curve,) = curves(Rows([(0, 0, np.array([most, most])), (0, 0, np.array([most, 0.0])), (1, 0, most), (1, 0, most)]))
    assert curve.mean == [0.75 * most, most]


def test_each_rank_is_a_curve_and_each_step_a_point() -> None:
    one, two = curves(Rows([(0, 1, 4), (0, 0, 1), (0, 0, 3.0), (1, 0, True)], dtype="json"))
    assert (one.rank, one.steps, one.mean, one.high) == (0, [0, 1], [2.0, 1.0], [3.0, 1.0])
    assert (two.rank, two.steps, two.mean) == (1, [0], [4.0]) and two.is_flat


@pytest.mark.parametrize(
    ("value", "mean"),
    [
        *((np.array([True, False]), 0.5), (np.array([3 + 4j]), 5.0), (np.array(7, np.int8), 7.0)),
        *((3j, 3.0), (2**70, float(2**70)), (np.array([255], np.uint8), 255.0)),
    ],
)
def test_curve_of_each_number_type(value: Any, mean: float) -> None:
    assert curves(Rows([(0, 0, value)]))[0].mean == [mean]


def test_curve_of_types_that_numpy_lacks() -> None:
    import ml_dtypes

    assert curves(Rows([(0, 0, np.array([1.5], ml_dtypes.bfloat16))]))[0].mean == [1.5]


@pytest.mark.parametrize(
    ("dtype", "value", "is_whole"),
    [
        ("int64", np.ones(2, "i8"), True),
        ("float32", np.ones(2, "f4"), False),
        ("json", 4096, True),
        ("json", 0.5, False),
    ],
)
def test_curve_of_integers_is_whole(dtype: str, value: Any, is_whole: bool) -> None:
    (curve,) = curves(Rows([(0, 0, value)], dtype=dtype))
    assert curve.is_whole is is_whole


def test_a_step_that_ends_in_nan_has_no_mean() -> None:
    (curve,) = curves(Rows([(0, 0, 2.0), (0, 0, 3.0), (1, 0, 1.5), (1, 0, NAN)], shape=()))
    assert (curve.mean, curve.low, curve.high, curve.odd) == ([2.5, None], [2.0, 1.5], [3.0, 1.5], [1])


@pytest.mark.parametrize("value", ["text", None, (1, 2), 10**400, np.array(["a"])])
def test_values_that_are_not_numbers_have_no_curve(value: Any) -> None:
    assert curves(Rows([(0, 0, value)])) == []
