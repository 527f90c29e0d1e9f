"""How much of a tensor is kept: only its facts, its statistics, or the result of a function of the user."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy
import torch
from torch import Tensor

from insitu.capture.containers import MOST_DEPTH, leaves
from insitu.capture.tensors import Keep
from insitu.capture.torch_internals import (
    LOCAL_TENSOR,
    NO_DISPATCH,
    DisableTorchDispatch,
    DisableTorchFunction,
    FakeTensor,
    enable_record_function,
    is_functorch_wrapped,
    is_zero_tensor,
    profiler_enabled,
    set_grad_enabled,
)
from insitu.errors import ChoiceError, choose
from insitu.trace.dtype import DTYPES
from insitu.trace.event import STATISTICS, Stats

T = TypeVar("T")

KEEPS = ("meta", "stats", "values")
BINS = 16
SMALL = 16  # elements of a tensor whose values are shown themselves
INTEGERS = tuple(getattr(torch, row.name) for row in DTYPES if row.is_integer and row.storage == "numpy")
EXTREMES = [row.name for row in STATISTICS if row.bound == "extreme"]
MOST_EXACT = 2**53  # of the integers that a float holds exactly
MANY = 4096  # elements from which on another way of counting is worth it


def make_keep(keep: str | Callable[[Tensor], Any], trouble: Callable[[str, Exception], None]) -> Keep | None:
    """The function that is called with each tensor that a call produces; None for `meta`."""
    if keep is closely:
        return protected_keep(closely, "statistics", trouble, arrays=True)
    if callable(keep):
        return protected_keep(keep, "the function given as keep", trouble)
    if not isinstance(keep, str):
        raise ChoiceError(f"keep={keep!r} is neither one of {', '.join(map(repr, KEEPS))} nor a function of a tensor")
    choose("keep", keep, KEEPS)
    return protected_keep(statistics, "statistics", trouble, arrays=True) if keep == "stats" else None


def protected_keep(
    function: Callable[[Tensor], Any], what: str, trouble: Callable[[str, Exception], None], *, arrays: bool = False
) -> Keep:
    """Wrap a function so that autograd and modes do not see it; an exception turns it off for this session.

    With `arrays`, it is called with NumPy arrays too, as tensors.
    """
    failed = False

    def call(tensor: Any) -> Any:
        nonlocal failed
        if not isinstance(tensor, Tensor):
            tensor = as_tensor(tensor) if arrays else None
        if failed or tensor is None or not has_values(tensor):
            return None
        try:
            return unnoticed(lambda: plain(function(tensor.detach())))
        except Exception as error:
            failed = True
            trouble(what, error)
            return None

    return call


def unnoticed(run: Callable[[], T]) -> T:
    """Run code of the tool unseen by autograd, modes and profilers; `torch.no_grad` costs more."""
    if is_profiled():
        return unprofiled(lambda: unnoticed(run))
    with DisableTorchFunction(), DisableTorchDispatch():
        enabled = torch.is_grad_enabled()
        try:
            set_grad_enabled(False)
            return run()
        finally:
            set_grad_enabled(enabled)


def is_profiled() -> bool:
    """Whether a profiler of torch runs in this thread and would see operators now."""
    return profiler_enabled() and not _own.running


def unprofiled(run: Callable[[], T]) -> T:
    """Run code of the tool unseen by the profiler of torch."""
    try:  # already here: an interrupt may come at any moment
        _own.running = True
        enable_record_function(False)
        return run()
    finally:
        enable_record_function(True)
        _own.running = False


class _Own(threading.local):
    """Whether operators of the tool run in this thread, hidden from the profiler."""

    running = False


_own = _Own()


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


def local(tensor: Any) -> Any:
    """The part of a tensor in this process: of a DTensor the local part; to gather it would wait for other ranks."""
    part = getattr(tensor, LOCAL_TENSOR, None)
    return part if isinstance(part, Tensor) else tensor


def has_values(tensor: Tensor) -> bool:
    """Whether there is memory to look at: not on the meta device, not fake, not inside a functorch transform, not
    where the storage was freed, as FSDP does: torch itself crashes on these."""
    if tensor.device.type == "meta" or not is_plain_class(tensor) or is_zero_tensor(tensor):
        return False
    return not is_transformed(tensor) and fits_its_storage(tensor)


def fits_its_storage(tensor: Tensor) -> bool:
    """Whether the storage of a tensor is as large as its shape and strides say; True where these say nothing."""
    count = tensor.numel()
    if not count or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return True
    try:
        end = tensor.storage_offset() + (count if tensor.is_contiguous() else extent(tensor))
        return end * tensor.element_size() <= tensor.untyped_storage().nbytes()
    except NotImplementedError:  # a backend whose tensors have no storage
        return True


def extent(tensor: Tensor) -> int:
    """The number of elements in memory from the first to the last of a tensor."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def is_transformed(tensor: Tensor) -> bool:
    """Whether a tensor is inside a transform of `torch.func`, where its values cannot be read."""
    return is_functorch_wrapped(tensor)


def is_fake(tensor: Tensor) -> bool:
    """Whether a tensor has facts only; torch warns if one asks for its memory."""
    return isinstance(tensor, FakeTensor)


def is_plain_class(tensor: Tensor) -> bool:
    """Whether a tensor keeps its values itself; a subclass that dispatches in Python may not."""
    return type(tensor) in (Tensor, torch.nn.Parameter) or (type(tensor).__torch_dispatch__ is NO_DISPATCH)


def plain(item: Any, depth: int = 0) -> Any:
    """A small result without tensors in it."""
    if isinstance(item, Tensor):
        return plain_tensor(item)
    if not isinstance(item, (list, tuple, dict)):
        return item
    if depth == MOST_DEPTH:
        raise ValueError(f"a result may be nested at most {MOST_DEPTH} levels deep")
    if isinstance(item, dict):
        return {str(key): plain(value, depth + 1) for key, value in item.items()}
    return [plain(part, depth + 1) for part in item]


def plain_tensor(tensor: Tensor) -> Any:
    """The values of a tensor as a number or an array."""
    tensor = tensor.detach().cpu()
    if tensor.dim() == 0:
        return tensor.item()
    has_numpy_dtype = tensor.dtype not in NOT_IN_NUMPY
    return (tensor if has_numpy_dtype else tensor.float()).numpy().copy()


def weighed_keep(keep: Keep, weigh: Callable[[int], None]) -> Keep:
    """The same function, which calls `weigh` with the bytes of each large result."""

    def call(tensor: Any) -> Any:
        made = keep(tensor)
        if made is not None and (size := size_of(made)):
            weigh(size)
        return made

    return call


def size_of(item: Any) -> int:
    """The bytes of the arrays and texts in a result."""
    return sum(leaf.nbytes if isinstance(leaf, numpy.ndarray) else len(leaf) for leaf in leaves(item) if is_large(leaf))


def is_large(item: Any) -> bool:
    """Whether a value may take much memory."""
    return isinstance(item, (numpy.ndarray, str, bytes))


# Older versions of torch do not have all of them.
NOT_IN_NUMPY = tuple(getattr(torch, row.name, None) for row in DTYPES if row.storage == "ml_dtypes")


def closely(tensor: Tensor) -> Any:
    """The values of a small tensor, the statistics of another one."""
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.is_quantized:
        return statistics(tensor)
    if tensor.numel() > SMALL:
        return range_and_mean(tensor)
    try:
        return plain(tensor)
    except (TypeError, RuntimeError):  # a type that NumPy does not have
        return statistics(tensor)


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
    nan = inf = 0
    if not math.isfinite(total):
        nan, inf = int(values.isnan().sum()), int(values.isinf().sum())
        values = values[values.isfinite()] if nan or inf else values
    zeros = count_zeros(values)
    if values.numel() == 0:
        return Stats(count=count, nan=nan, inf=inf, zeros=zeros)
    low, high = (bound.item() for bound in values.aminmax())
    mean, std = moments(values, total if math.isfinite(total) else None, max(abs(low), abs(high)))
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


class Small(dict[str, Any]):
    """A result that consists of small values by name: nobody has to look for tensors in it."""


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
        named |= {name: int(named[name]) for name in EXTREMES if abs(named[name]) <= MOST_EXACT}
    return Small(named)


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
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()
    if tensor.is_nested or tensor.layout is not torch.strided:
        return tensor.values()
    return tensor


WIDE_INTEGERS = (torch.int64, torch.int32, torch.uint32, torch.uint64)  # float32 does not hold them exactly


def moments(values: Tensor, total: float | None, largest: float) -> tuple[float, float]:
    """Mean and standard deviation: from the sum of squares, or in two passes if that would lose digits."""
    count = values.numel()
    if total is None or not 1e-15 < largest < 1e15:
        return scaled_moments(values, largest)
    mean = total / count
    square = torch.dot(values, values).item() / count
    variance = square - mean * mean
    if variance < 1e-3 * square:
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
    if not low < high or not math.isfinite(high - low):
        return (values.numel(), *[0] * (BINS - 1))
    counts = torch.histc(values, BINS, low, high)
    return tuple(int(count) for count in counts.tolist())
