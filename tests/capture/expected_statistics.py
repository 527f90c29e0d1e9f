"""The statistics that NumPy computes for a tensor, to compare with."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from insitu.trace.event import Stats


def numbers(tensor: Tensor) -> numpy.ndarray[Any, Any]:
    """The elements as numpy has them, in the widest type."""
    if tensor.is_complex():
        tensor = tensor.to(torch.complex128).abs()
    return tensor.detach().to(torch.float64).reshape(-1).numpy()


def assert_right(found: Stats, tensor: Tensor, *, digits: float = 1e-5) -> None:
    """The statistics are those that numpy computes."""
    values = numbers(tensor)
    finite = values[numpy.isfinite(values)]
    assert (found.count, found.nan, found.inf) == (values.size, numpy.isnan(values).sum(), numpy.isinf(values).sum())
    assert found.zeros == (values == 0).sum()
    if finite.size == 0:
        assert (found.min, found.max, found.mean, found.std) == (None,) * 4
        assert sum(found.histogram) == 0
        return
    assert found.min == finite.min() and found.max == finite.max()
    scale = max(abs(finite).max(), 1e-300)
    spread = finite.std()
    assert found.mean == pytest.approx(finite.mean(), rel=digits, abs=scale * 1e-6)
    assert found.std == pytest.approx(spread, rel=1e-3, abs=scale * 1e-7)
    assert sum(found.histogram) == finite.size
    assert len(found.histogram) == 16
