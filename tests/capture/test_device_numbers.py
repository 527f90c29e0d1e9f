"""Arithmetic on the device: statistics are those of the direct path, and a fingerprint shows each change."""

from __future__ import annotations

from math import inf, nan

import pytest
import torch
from torch import Tensor

from insitu.capture.device_numbers import FingerprintWeights, statistics_row, stats_of_row
from insitu.capture.statistics import flat_floats, statistics
from insitu.trace.event import Stats

CPU = torch.device("cpu")
TENSORS: dict[str, Tensor] = {
    "a few": torch.tensor([0.5, -1.0, 3.0]),
    "many": torch.linspace(-3, 7, 100_001),
    "equal": torch.full((7,), 3.0),
    "zeros": torch.zeros(4),
    "one": torch.tensor(2.5),
    "large": torch.tensor([1e20, -1e20, 3.0]),
    "small": torch.tensor([1e-20, 2e-20]),
    "a sum that overflows": torch.full((3, 3), 3e38),
    "a variance that loses digits": torch.linspace(1000, 1001, 10_001),
    "a range that overflows": torch.tensor([-1e308, 1e308], dtype=torch.float64),
    "only NaN": torch.tensor([nan, nan]),
    "only Inf": torch.tensor([inf, -inf]),
    "integers": torch.arange(50) % 9,
    "large integers": torch.arange(2**33, 2**33 + 4),
    "bools": torch.tensor([True, False, True]),
    "bfloat16": torch.linspace(-1, 1, 33).bfloat16(),
    "complex": torch.tensor([3 + 4j, 1j]),
    "transposed": torch.arange(6.0).view(2, 3).t(),
}


def on_device(tensor: Tensor, *, bins: bool = True) -> Stats:
    values = flat_floats(tensor)
    return stats_of_row(statistics_row(values, torch.float64, bins=bins).numpy(), values.numel())


@pytest.mark.parametrize("name", TENSORS)
def test_statistics_are_equal_to_those_of_the_direct_path(name: str) -> None:
    tensor = TENSORS[name]
    assert on_device(tensor) == statistics(tensor)
    assert on_device(tensor, bins=False) == statistics(tensor, bins=False)


def test_statistics_beside_nan_and_inf_differ_by_rounding_at_most() -> None:
    tensor = torch.linspace(-3, 7, 10_001)
    tensor[::7], tensor[5], tensor[6] = nan, inf, -inf
    direct, later = statistics(tensor), on_device(tensor)
    assert direct is not None and later.histogram == direct.histogram
    names = ("count", "min", "max", "nan", "inf", "zeros")
    assert [getattr(later, name) for name in names] == [getattr(direct, name) for name in names]
    assert (later.mean, later.std) == pytest.approx((direct.mean, direct.std), rel=1e-12)


@pytest.mark.parametrize("count", [1, 3, 70_000, 200_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_a_fingerprint_shows_the_change_of_one_element(count: int, dtype: torch.dtype) -> None:
    weights, tensor = FingerprintWeights(CPU), (torch.arange(count) % 2).to(dtype)
    before = fingerprint(weights, tensor)
    assert fingerprint(weights, tensor.clone()) == before
    for index in {0, count // 2, count - 1}:
        changed = tensor.clone()
        changed[index] = 1 - int(changed[index])
        assert fingerprint(weights, changed) != before


def test_a_fingerprint_shows_that_elements_have_changed_places() -> None:
    weights, tensor = FingerprintWeights(CPU), torch.arange(150_000.0)
    swapped = torch.cat((tensor[65_536:], tensor[:65_536]))
    assert len({fingerprint(weights, each) for each in (tensor, swapped, tensor.flip(0))}) == 3


def fingerprint(weights: FingerprintWeights, tensor: Tensor) -> tuple[float, ...]:
    return tuple(float(number) for number in weights.fingerprint(tensor))
