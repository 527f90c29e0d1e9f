"""Computes the statistics of a tensor or of an array of NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch
from torch import Tensor

from insitu.capture.tensor_memory import is_dense
from insitu.capture.torch_internals import DisableTorchDispatch, DisableTorchFunction
from insitu.trace.dtype import DTYPES
from insitu.trace.event import STATISTICS, Stats

BINS = 16
INTEGERS = tuple(getattr(torch, row.name) for row in DTYPES if row.is_integer and row.storage == "numpy")
WIDE_INTEGERS = (torch.int64, torch.int32, torch.uint32, torch.uint64)  # float32 does not hold them exactly
ELEMENTS = ("min", "max")  # the statistics that are elements of the tensor: those of integers are integers
MOST_EXACT = 2**53  # of the integers that a float holds exactly
TINY, VAST = 1e-15, 1e15  # between these, the squares of numbers neither underflow nor overflow
CLOSE = 1e-3  # a variance that is so small a part of the mean square has lost digits
MANY = 4096  # elements from which on another way of counting is worth it


def statistics(tensor: Tensor, *, bins: bool = True) -> Stats | None:
    """The statistics of a tensor; a complex tensor by its absolute values. None if torch cannot read the dtype.

    >>> found = statistics(torch.tensor([0.0, 1.0, float("nan")]))
    >>> found.min, found.max, found.mean, found.nan, found.zeros
    (0.0, 1.0, 0.5, 1, 1)
    """
    try:
        values = flat_floats(tensor)
    except NotImplementedError:  # types of less than a byte
        return None
    count = values.numel()
    if count == 0:
        return Stats(count=0)
    total = values.sum().item()
    is_finite = math.isfinite(total)
    nan = inf = 0
    if not is_finite:
        nan, inf = int(values.isnan().sum()), int(values.isinf().sum())
        if nan or inf:
            values = values[values.isfinite()]
    zeros = count_zeros(values)
    if values.numel() == 0:
        return Stats(count=count, nan=nan, inf=inf, zeros=zeros)
    least, largest = values.aminmax()
    low, high = least.item(), largest.item()
    mean, std = moments(values, total if is_finite else None, max(abs(low), abs(high)))
    return Stats(
        count=count,
        min=low,
        max=high,
        mean=mean,
        std=std,
        nan=nan,
        inf=inf,
        zeros=zeros,
        histogram=histogram(values, low, high) if bins else (),
    )


def range_and_mean(tensor: Tensor) -> Stats | None:
    """The statistics that need the fewest passes over a large tensor."""
    if not has_exact_sums(tensor):
        return statistics(tensor)
    total = tensor.sum(dtype=None if tensor.is_floating_point() else torch.int64).item()
    if not math.isfinite(total):
        return statistics(tensor)
    ordered = tensor.byte() if tensor.dtype is torch.bool else tensor  # torch has no aminmax of bools
    low, high = map(float, ordered.aminmax())
    count = tensor.numel()
    zeros = count - int(tensor.count_nonzero())
    return Stats(count=count, min=low, max=high, mean=total / count, zeros=zeros)


def has_exact_sums(tensor: Tensor) -> bool:
    """Whether the sum of a tensor is exact enough for a mean, and fits its dtype."""
    dtype = tensor.dtype
    if dtype.is_floating_point:
        return dtype.itemsize > 2
    return not dtype.is_complex and dtype is not torch.uint64


class Small(dict[str, Any]):
    """Small values by name: a walk for tensors need not enter this dict."""


def stats(value: Any) -> Small | None:
    """The statistics of a tensor or array as plain numbers, by name; the least and the largest integer are integers."""
    tensor = value if isinstance(value, Tensor) else as_tensor(value)
    if tensor is None:
        return None
    found = statistics(tensor, bins=False)
    if found is None:
        return None
    named = {row.name: getattr(found, row.name) for row in STATISTICS}
    if tensor.dtype in INTEGERS and found.count:
        named |= {name: int(named[name]) for name in ELEMENTS if abs(named[name]) <= MOST_EXACT}
    return Small(named)


def as_tensor(array: Any) -> Tensor | None:
    """A copy of a NumPy array as a tensor; None where torch has no such type."""
    if array.dtype.kind not in "biufc":
        return None
    native = numpy.array(array, dtype=array.dtype.newbyteorder("="), order="C", subok=False)
    try:
        with DisableTorchFunction(), DisableTorchDispatch():
            return torch.from_numpy(native)
    except TypeError:
        return None


def count_zeros(values: Tensor) -> int:
    """How many of the values are 0. On a CPU NumPy counts many faster: torch has a branch for each of them."""
    if values.is_cpu and values.numel() > MANY:
        return int(numpy.count_nonzero(values.detach().resolve_neg().numpy() == 0))
    return values.numel() - int(values.count_nonzero())


def flat_floats(tensor: Tensor) -> Tensor:
    """The values as one row of floats."""
    tensor = stored_values(tensor)
    if tensor.dtype is torch.complex32:
        tensor = tensor.to(torch.complex64)
    if tensor.is_complex():
        tensor = tensor.abs()
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float64 if tensor.dtype in WIDE_INTEGERS else torch.float32)
    return tensor.reshape(-1)


def stored_values(tensor: Tensor) -> Tensor:
    """The values of a quantized, nested or sparse tensor as a dense one."""
    if is_dense(tensor):
        return tensor
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()
    return tensor.values()


def moments(values: Tensor, total: float | None, largest: float) -> tuple[float, float]:
    """Mean and standard deviation: from the sum of squares, or in two passes if that would lose digits.

    `total` is the sum of the values, or None if it overflows.
    """
    count = values.numel()
    if total is None or not TINY < largest < VAST:
        return scaled_moments(values, largest)
    mean = total / count
    square = torch.dot(values, values).item() / count
    variance = square - mean * mean
    if variance < CLOSE * square:
        variance = (values.double() - mean).square().mean().item()
    return mean, math.sqrt(max(variance, 0.0))


def scaled_moments(values: Tensor, largest: float) -> tuple[float, float]:
    """Mean and standard deviation of values whose sum or squares would overflow or underflow."""
    if largest == 0:
        return 0.0, 0.0
    scaled = values.double() / largest
    mean = scaled.mean()
    return mean.item() * largest, (scaled - mean).square().mean().sqrt().item() * largest


def histogram(values: Tensor, low: float, high: float) -> tuple[int, ...]:
    """Counts in equal bins; if all values are equal, all are in the first bin."""
    if not has_bins(low, high):
        return histogram_of_equals(values.numel())
    counts = torch.histc(values, BINS, low, high)
    return tuple(map(int, counts.tolist()))


def has_bins(low: float, high: float) -> bool:
    """Whether the range between two numbers can be divided into bins."""
    return low < high and math.isfinite(high - low)


def histogram_of_equals(count: int) -> tuple[int, ...]:
    """The histogram of so many values that are all equal."""
    return (count, *[0] * (BINS - 1))
