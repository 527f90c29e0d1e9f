"""Statistics of tensors of every dtype, shape and layout, compared with those of NumPy."""

from __future__ import annotations

import math

import pytest
import torch
from tests.capture.expected_statistics import assert_right, numbers

from insitu.capture.statistics import statistics, stats

NAN, INF = float("nan"), float("inf")
generator = torch.Generator().manual_seed(0)
normal = torch.randn(1000, generator=generator)

VALUES = {
    "normal": normal.tolist(),
    "empty": [],
    "one": [3.5],
    "constant": [2.25] * 100,
    "zeros": [0.0, -0.0, 0.0],
    "minus zero": [-0.0],
    "nan": [1.0, NAN, 2.0, NAN],
    "only nan": [NAN, NAN],
    "inf": [1.0, INF, -INF, -3.0],
    "only inf": [INF],
    "both infs and nan": [INF, -INF, NAN, 0.0],
    "mean far from zero": (normal * 1e-3 + 1000).tolist(),
    "one far away": [1e6, *[0.0] * 1000],
    "large count": [0.1] * 100_000,
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_statistics_of_floats(name: str, dtype: torch.dtype) -> None:
    tensor = torch.tensor(VALUES[name], dtype=dtype)
    assert_right(statistics(tensor), tensor)


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64]
)
def test_statistics_of_ints(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    tensor = torch.tensor(
        [0, 1, 2, 100, info.max if dtype is not torch.uint64 else 2**52, max(info.min, -(2**52)), 7], dtype=dtype
    )
    assert_right(statistics(tensor), tensor)


@pytest.mark.parametrize("name", [n for n in dir(torch) if n.startswith("float8")])
def test_statistics_of_small_floats(name: str) -> None:
    tensor = torch.tensor([1.0, 2.0, 4.0, 0.5]).to(getattr(torch, name))
    assert_right(statistics(tensor), tensor.float())


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_statistics_of_complex_numbers(dtype: torch.dtype) -> None:
    tensor = torch.tensor([3 + 4j, 0, -1, 1j, complex(NAN, 0), complex(0, INF)]).to(dtype)
    assert_right(statistics(tensor), tensor.to(torch.complex128))


def test_statistics_of_bools() -> None:
    found = statistics(torch.tensor([True, False, True, True]))
    assert (found.count, found.min, found.max, found.mean, found.zeros) == (4, 0.0, 1.0, 0.75, 1)


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-30, 1e-22, 1e-15, 1e10, 1e15, 1e19, 1e25, 1e37])
@pytest.mark.parametrize("values", [[1.0, -1.0, 1.0, -1.0], [1.0, 2.0, 3.0], [0.0, 1.0, 9.0]])
def test_statistics_at_any_scale(scale: float, values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float64).mul(scale).float()
    found, expected = statistics(tensor), numbers(tensor)
    assert found.min == expected.min() and found.max == expected.max()
    assert found.mean == pytest.approx(expected.mean(), rel=1e-5, abs=scale * 1e-6)
    assert found.std == pytest.approx(expected.std(), rel=1e-4, abs=0)


def test_statistics_of_a_sum_that_overflows() -> None:
    tensor = torch.tensor([3e38, 3e38, -1e38])
    found = statistics(tensor)
    assert (found.nan, found.inf, found.max) == (0, 0, tensor.max().item())
    assert found.mean == pytest.approx(5e38 / 3, rel=1e-5)
    assert found.std == pytest.approx(numbers(tensor).std(), rel=1e-4)


def test_the_histogram_is_in_equal_bins() -> None:
    found = statistics(torch.arange(16.0).repeat(3))
    assert found.histogram == (3,) * 16
    assert statistics(torch.tensor([5.0] * 4)).histogram == (4, *[0] * 15)


def test_statistics_of_all_shapes_and_layouts() -> None:
    tensor = torch.arange(12.0).view(3, 4)
    for view in (tensor.T, tensor[:, ::2], tensor[0].expand(5, 4), tensor[1, 1], torch.conj(tensor * 1j).imag):
        assert_right(statistics(view), view.clone())
    coo, csr = torch.eye(3).to_sparse(), torch.eye(3).to_sparse(layout=torch.sparse_coo)
    assert (statistics(coo).max, statistics(csr).nan) == (1.0, 0)


def test_mean_of_very_large_values_is_finite() -> None:
    found = statistics(torch.tensor([1.7e308, 1.7e308], dtype=torch.float64))
    assert found.mean is not None and math.isfinite(found.mean)


def test_recorded_min_and_max_of_integers_are_integers() -> None:
    found = stats(torch.tensor([3, 131_073]))
    assert found is not None and (found["min"], found["max"]) == (3, 131_073)
    assert type(found["max"]) is int and type(found["mean"]) is float
    values = (torch.ones(2), torch.tensor([2**62]), torch.empty(0).long())
    floats, large, empty = map(stats, values)
    assert floats is not None and type(floats["max"]) is float
    assert large is not None and type(large["max"]) is float
    assert empty is not None and empty["max"] is None
