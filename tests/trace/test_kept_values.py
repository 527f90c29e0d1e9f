"""The values that a trace has kept, as numbers and as statistics."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy
import pytest
import torch
from tests.capture.expected_statistics import assert_right

from insitu.capture.statistics import statistics
from insitu.trace.event import Call, Stats, TensorFacts
from insitu.trace.kept_values import kept_arrays, real_numbers, statistics_of, statistics_of_values
from insitu.trace.nonfinite import NonFiniteSearch

nan, inf = float("nan"), float("inf")


def facts(kept: Any, shape: tuple[int, ...], **more: Any) -> TensorFacts:
    return TensorFacts(more.pop("id", 0), shape, "f32", "cpu", kept=kept, **more)


@pytest.mark.parametrize(
    "values",
    [
        torch.randn(3, 5, generator=torch.Generator().manual_seed(0)),
        torch.tensor([nan, 1.0, -inf, 0.0]),
        torch.tensor([nan, nan]),
        torch.zeros(0, 4),
        torch.zeros(7),
        torch.arange(12),
        torch.tensor([True, False]),
        torch.tensor([1e150, -1e150], dtype=torch.float64),
        torch.tensor([3 + 4j, 0j]),
        torch.randn(6, generator=torch.Generator().manual_seed(1)).half(),
    ],
    ids=lambda values: f"{values.dtype}{list(values.shape)}",
)
def test_statistics_of_kept_values_are_those_that_a_recording_computes(values: torch.Tensor) -> None:
    found = statistics_of(facts(values.numpy(), tuple(values.shape)))
    assert found is not None
    if values.numel():
        assert_right(found, values)
    recorded = statistics(values)
    assert recorded is not None and found.histogram == recorded.histogram and found.count == recorded.count


def test_recorded_statistics_come_first_and_samples_have_none() -> None:
    known = Stats(count=2)
    assert statistics_of(facts(numpy.ones(2), (2,), stats=known)) is known
    assert statistics_of(facts(numpy.ones(2), (4,))) is None
    assert statistics_of(facts("text", (2,))) is None and statistics_of(facts(None, (2,))) is None
    number = statistics_of(facts(2.5, ()))
    assert number is not None and (number.count, number.min) == (1, 2.5)


@pytest.mark.parametrize(
    "array",
    [
        numpy.array(["text"]),
        numpy.array([object()], dtype=object),
        numpy.zeros(3, "V4"),
        numpy.array(["2020-01-01"], dtype="datetime64[D]"),
        numpy.zeros(2, [("x", "f4")]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_what_is_not_a_number_has_no_statistics(array: Any) -> None:
    assert real_numbers(array) is None and statistics_of_values(array) is None


def test_types_that_numpy_does_not_know_become_floats() -> None:
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
        numbers = real_numbers(numpy.array([1, 2], dtype))
        assert numbers is not None and numbers.dtype == "float32" and numbers.tolist() == [1, 2]
    swapped = real_numbers(numpy.array([1.5], ">f4"))
    assert swapped is not None and swapped.dtype.isnative and swapped.tolist() == [1.5]


def test_arrays_are_found_in_containers() -> None:
    kept = {"low": 1.0, "rows": [numpy.ones(1), (numpy.ones(2), "text")]}
    assert [(found.name, found.array.size) for found in kept_arrays(kept)] == [("rows.0", 1), ("rows.1.0", 2)]
    assert kept_arrays("text") == [] and len(kept_arrays([numpy.ones(1)] * 50)) == 8
    deep: Any = numpy.ones(1)
    for _ in range(9):
        deep = [deep]
    assert kept_arrays(deep) == []


def test_nan_in_kept_values_is_found_without_statistics() -> None:
    search = NonFiniteSearch()
    given, out = facts(numpy.array([-1.0, 2.0]), (2,), id=1), facts(numpy.array([nan, 0.7]), (2,), id=2, producer=0)
    search.add(Call(0, None, "function", "torch.log", args=(given,), result=out))
    masked = facts(numpy.array([1.0, -inf]), (2,), id=3, producer=1)
    search.add(Call(1, None, "function", "torch.Tensor.masked_fill", args=(given, -inf), result=masked))
    sampled = facts(nan, (2,), id=4, producer=2)  # the result of a function of the user says nothing of the tensor
    search.add(Call(2, None, "function", "torch.relu", args=(given,), result=sampled))
    found = search.result()
    assert found[0].is_origin and found[0].contents.nan
    assert not found[1].is_wrong and found[1].contents.minus_inf and not found[1].contents.inf
    assert 2 not in found
