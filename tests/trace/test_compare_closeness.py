"""Whether two tensors are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from insitu.capture.statistics import statistics
from insitu.errors import ChoiceError
from insitu.trace.compare.closeness import Tolerance, close, close_arrays, close_plain, close_stats
from insitu.trace.event import Stats, TensorFacts

SHORT = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i64": torch.int64}


def facts(dtype: str = "f32", **more: Any) -> TensorFacts:
    return TensorFacts(0, (3,), dtype, "cpu", **more)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_values_are_close_where_torch_says_so(dtype: str, factor: float) -> None:
    rtol, atol = Tolerance().of(dtype, dtype)
    b = torch.tensor([1.0, -20.0, 300.0], dtype=torch.float64)
    a = b + factor * (atol + rtol * b.abs()) if rtol else b + torch.tensor([0, 0, 1.0 if factor > 1 else 0.0])
    try:
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)
        expected = True
    except AssertionError:
        expected = False
    found = close(facts(dtype, kept=a.numpy()), facts(dtype, kept=b.numpy()), Tolerance())
    assert (found.same, found.certainty) == (expected, "values")
    assert expected == (factor < 1)


def test_the_looser_of_two_dtypes() -> None:
    a, b = facts("f32", kept=np.array([1.0, 1, 1])), facts("bf16", kept=np.array([1.01, 1, 1]))
    assert close(a, b, Tolerance()).same
    assert close(a, b, Tolerance(1e-6, 1e-6)).same is False


def test_nan_is_nan_and_infinity_is_not_large() -> None:
    odd = np.array([np.nan, np.inf, -np.inf])
    same = close_arrays(odd, odd.copy(), 0.1, 0.1)
    assert same is not None and same.same
    for other in ([0, np.inf, -np.inf], [np.nan, 1e30, -np.inf], [np.nan, -np.inf, -np.inf]):
        found = close_arrays(odd, np.array(other), 0.1, 0.1)
        assert found is not None and found.same is False


def test_elements_that_are_close_have_statistics_that_are() -> None:
    torch.manual_seed(0)
    for size in (1, 2, 100, 10_000):
        for scale in (1e-6, 1.0, 1e4):
            b = (torch.randn(size, dtype=torch.float64) + 0.5) * scale
            a = b + (torch.rand(size) * 2 - 1) * (1e-5 + 1.3e-6 * b.abs())
            left, right = statistics(a), statistics(b)
            assert left is not None and right is not None
            assert close_stats(left, right, 1.3e-6, 1e-5).same


def test_statistics_that_cannot_be_of_close_elements() -> None:
    base = Stats(count=100, min=-1.0, max=1.0, mean=0.0, std=0.5, zeros=3)
    for change in ({"mean": 0.001}, {"max": 1.001}, {"nan": 1}, {"inf": 2}, {"std": 0.6}, {"min": None}):
        other = Stats(**{**{name: getattr(base, name) for name in Stats.__slots__}, **change})
        assert close_stats(base, other, 1.3e-6, 1e-5).same is False, change


def test_integers_must_have_the_same_histogram() -> None:
    a, b = (Stats(count=4, min=0.0, max=3.0, mean=1.5, std=1.0, zeros=1, histogram=bins) for bins in ((2, 2), (1, 3)))
    assert close(facts("i64", stats=a), facts("i64", stats=b), Tolerance()).same is False
    assert close(facts("f32", stats=a), facts("f32", stats=b), Tolerance()).same


def test_large_integers_are_compared_as_integers() -> None:
    for name, large in (("int64", 2**53), ("uint64", 2**63), ("int64", -(2**62))):
        a, b = np.array([large, 1], name), np.array([large + 1, 1], name)
        found = close_arrays(a, b, 0.0, 0.0)
        assert found is not None and (found.same, found.delta) == (False, 1.0)
    mixed = close_arrays(np.array([2**53 + 1], "int64"), np.array([2**53], "uint64"), 0.0, 0.0)
    assert mixed is not None and mixed.same is False
    far = close_arrays(np.array([-(2**63)]), np.array([2**63 - 1]), 0.0, 0.0)
    assert far is not None and (far.same, far.delta) == (False, 2.0**64)
    near = close_arrays(np.array([1000, -5]), np.array([1001, -5]), 0.0, 1.0)
    assert near is not None and near.same  # a tolerance that is given holds for them, too
    flags = close_arrays(np.array([True, False]), np.array([True, True]), 0.0, 0.0)
    assert flags is not None and (flags.same, flags.delta) == (False, 1.0)


def test_a_number_that_no_float_can_hold() -> None:
    for a, b in ((10**400, 1.5), (1.5, 10**400), (10**400, 1j), (-(10**400), float("inf"))):
        found = close_plain(a, b)
        assert found is not None and (found.same, found.delta) == (False, float("inf"))
    same = close_plain(10**400, 10**400)
    assert same is not None and same.same


def test_a_number_beside_an_array() -> None:
    for a, b in ((3, np.array([3, 3])), (np.array([3, 3]), 3)):
        found = close_plain(a, b)
        assert found is not None and found.same is False


@pytest.mark.parametrize("name", ["mean", "std", "min", "max"])
def test_moments_that_are_not_finite(name: str) -> None:
    def of(value: float) -> Stats:
        return replace(Stats(count=4, min=1.0, max=1.0, mean=1.0, std=1.0), **{name: value})  # type: ignore[arg-type]

    nan, inf = float("nan"), float("inf")
    for a, b in ((nan, 1.0), (1.0, nan), (inf, 1.0), (1.0, inf), (inf, -inf), (nan, inf)):
        found = close_stats(of(a), of(b), 1e-3, 1e-3)
        assert (found.same, found.measure) == (False, f"Δ {name}"), (a, b)
    for value in (nan, inf, -inf):
        assert close_stats(of(value), of(value), 1e-3, 1e-3).same


def test_infinite_bounds_hide_nothing() -> None:
    a, b = (Stats(count=4, min=-1.0, max=1.0, mean=mean, std=float("inf")) for mean in (0.1, 0.9))
    assert close_stats(a, b, 1e-3, 1e-3).same is False


def test_a_table_of_tolerances() -> None:
    tolerance = Tolerance(table={"f32": (0.1, 0.0)})
    assert tolerance.of("f32", "f32") == (0.1, 0.0) == tolerance.of("i64", "f32")
    assert tolerance.of("i64", "i64") == (0.0, 0.0) == tolerance.of("b8", "b8")


def test_what_is_not_kept_is_not_known() -> None:
    known = facts(stats=Stats(count=3, min=0.0, max=1.0, mean=0.5, std=0.1))
    assert close(facts(), known, Tolerance()).same is None
    assert close(facts(), TensorFacts(0, (4,), "f32", "cpu"), Tolerance()).measure == "shape"
    mixed = close(facts(stats=known.stats, kept=np.zeros(3)), known, Tolerance())
    assert (mixed.same, mixed.certainty) == (True, "statistics")


def test_what_a_function_kept_is_less_than_the_values() -> None:
    found = close(facts(kept=1.0), facts(kept=2.0), Tolerance())
    assert (found.same, found.certainty, found.delta) == (False, "statistics", 1.0)


@pytest.mark.parametrize(("rtol", "atol"), [(1e-3, None), (None, 1e-3), (-1.0, 0.0), (float("nan"), 0.0), ("a", 0.0)])
def test_tolerances_that_are_none(rtol: Any, atol: Any) -> None:
    with pytest.raises(ChoiceError, match="tol"):
        Tolerance(rtol, atol)
