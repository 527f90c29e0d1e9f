"""The relative error: the one measure of all differences, exact for values and a bound for statistics."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import numpy
import pytest
import torch
from tests.trace.comparing import Program, chain, compared

from insitu.capture.statistics import statistics
from insitu.trace.compare.closeness import Tolerance, close, close_arrays, close_plain
from insitu.trace.compare.relative import RelativeError, relative_error_of_statistics
from insitu.trace.event import Stats, TensorFacts
from insitu.view.diff_facts import diff_facts
from insitu.view.headline import size_cell, size_text


def relative(a: Any, b: Any) -> RelativeError | None:
    return close_arrays(numpy.asarray(a), numpy.asarray(b), 0.0, 0.0).relative


def test_the_relative_error_of_values_is_exact_and_symmetric() -> None:
    a, b = [1.0, -4.0, 0.0], [1.0, -3.0, 0.5]
    assert relative(a, b) == relative(b, a) == RelativeError(0.25)
    assert relative([0.0, 0.0], [0.0, 1e-9]) == RelativeError(1.0)  # all of it is new
    assert relative([1.0], [-1.0]) == RelativeError(2.0)  # the most there is
    assert relative(a, a) == RelativeError(0.0)
    assert relative(numpy.float32(a) * 1e-30, numpy.float32(b) * 1e-30).size == pytest.approx(0.25)  # type: ignore[union-attr]
    assert relative([True, False], [True, True]) == RelativeError(1.0)
    assert relative([1j], [1.0]).size == pytest.approx(2**0.5)  # type: ignore[union-attr]
    assert relative([], []) == RelativeError(0.0)


def test_nan_on_one_side_is_infinitely_far() -> None:
    nan = float("nan")
    assert relative([1.0, nan], [1.0, 2.0]) == RelativeError(inf)
    assert relative([1.0, inf], [1.0, 2.0]) == RelativeError(inf)
    assert relative([1.0, nan], [1.5, nan]) == RelativeError(1 / 3)
    one, other = Stats(count=2, min=1.0, max=1.0, nan=1), Stats(count=2, min=1.0, max=2.0)
    assert relative_error_of_statistics(one, other) == RelativeError(inf)


def test_numbers_of_python_have_a_relative_error() -> None:
    assert close_plain(1.0, 1.5).relative == RelativeError(1 / 3)  # type: ignore[union-attr]
    assert close_plain(3, 4).relative == RelativeError(0.25)  # type: ignore[union-attr]
    assert close_plain(10**400, 10**400 + 1).relative is None  # type: ignore[union-attr]
    assert close_plain("a", "b").relative is None  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(12))
def test_statistics_give_a_bound_that_values_never_fall_below(seed: int) -> None:
    torch.manual_seed(seed)
    a = torch.randn(3, 40, dtype=torch.float64) * 10.0 ** float(torch.randint(-6, 6, ()))
    b = a + torch.randn_like(a) * a.abs().max() * 10.0 ** float(torch.randint(-5, 1, ()))
    if seed % 3 == 0:
        b = a + a.abs().max() / 7  # all statistics but the deviation move by the same
    if seed % 4 == 1:
        b = a.flip(1) * 1.5
    exact = close(tensor(kept=a.numpy()), tensor(kept=b.numpy()), Tolerance()).relative
    bound = close(tensor(stats=statistics(a)), tensor(stats=statistics(b)), Tolerance()).relative
    assert exact is not None and bound is not None
    assert bound.is_bound and not exact.is_bound
    assert 0 < bound.size <= exact.size * (1 + 1e-9)


def tensor(**more: Any) -> TensorFacts:
    return TensorFacts(0, (3, 40), "f64", "cpu", **more)


def test_of_several_outputs_the_relatively_largest_difference_is_shown() -> None:
    runs = []
    for large, small in ((1000.0, 1.0), (1001.0, 1.5)):
        run, out = Program(), (number(large), number(small))
        run.call("function", "torch.max", number(0.0), out=out)
        runs.append(run)
    (row,) = compared(*runs).differences
    assert row.relative == RelativeError(1 / 3) and row.delta == 0.5


def number(value: float) -> TensorFacts:
    return TensorFacts(0, (2,), "f32", "cpu", kept=numpy.array([value, 0.0]))


def test_a_difference_of_shape_has_no_relative_error() -> None:
    a, b = chain(("relu", 1.0, ())), chain(("relu", 1.0, ()))
    b.events[0].result.shape = (3,)  # type: ignore[union-attr]
    diff = compared(a, b)
    assert diff.first is not None and diff.first.relative is None and size_text(diff.first) == "shape"


def test_texts_tables_and_json_have_the_same_number() -> None:
    a, b = chain(("relu", 1.0, ()), ("exp", 2.0, ())), chain(("relu", 1.5, ()), ("exp", 3.0, ()))
    diff = compared(a, b)
    assert diff.first is not None
    assert size_text(diff.first) == "relative error ≥ 0.2, Δ mean 0.5" and size_cell(diff.first) == "relative ≥ 0.2"
    frame = diff.to_pandas()
    assert frame["relative"].tolist() == [0.2, 0.25] and frame["relative_is_bound"].tolist() == [True, True]
    assert diff_facts(diff)["causes"][0]["relative"] == 0.2
    b.events[0].result.stats = Stats(count=2, min=1.0, max=2.0, mean=1.0, std=0.5, nan=1)  # type: ignore[union-attr]
    odd = compared(a, b)
    assert odd.first is not None and odd.first.relative == RelativeError(inf)
    assert size_text(odd.first) == "Δ NaN 1" and json.dumps(diff_facts(odd), allow_nan=False)


def test_one_cause_in_many_places_has_the_largest_relative_error() -> None:
    runs = []
    for extra in (0.0, 1.0):
        run = Program()
        for number_of in range(3):
            run.made("rand", value=number_of + extra, site=run.events[0].site if run.events else None)  # type: ignore[union-attr]
        runs.append(run)
    (cause,) = compared(*runs).causes
    assert cause.times == 3 and cause.relative is not None and cause.relative.size == pytest.approx(0.5)
