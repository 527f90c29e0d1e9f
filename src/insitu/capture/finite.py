"""Whether the values of a tensor are finite: one sum for each tensor, and a closer look only where it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import Parameter

from insitu.capture.isolation import is_profiled, run_isolated, run_unprofiled
from insitu.capture.modes import skip_when_compiling
from insitu.capture.tensor_memory import has_values, local_part
from insitu.capture.torch_internals import (
    MKLDNN,
    DisableTorchDispatch,
    DisableTorchFunction,
    dispatch_stack_length,
    profiler_enabled,
    set_grad_enabled,
    sparse_values,
    tracing_state,
    transform_interpreter,
)
from insitu.trace.origin import FINITE, Finiteness

# How near the least number of a dtype a mask comes that is added to scores.
NEARLY_LEAST = 0.9
# The types that are summed as they are, and those whose sum needs a wider one. The others are converted.
SUMMED = {torch.float32: torch.float32, torch.float64: torch.float64}
WIDENED = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
DTYPES = [item for item in vars(torch).values() if isinstance(item, torch.dtype)]
WHOLE = frozenset(kind for kind in DTYPES if not kind.is_floating_point and not kind.is_complex)
SUMMABLE = SUMMED.keys() | WIDENED.keys()
is_grad_enabled = torch.is_grad_enabled
HAS_CUDA = torch.cuda.is_available()


def total(tensor: Tensor) -> float:
    """The sum of a tensor: not finite if something in it is not, or if the sum itself is too large.

    Zero where there is nothing to sum. Function modes are off; nothing else notices.
    """
    is_plain = type(tensor) is Tensor or type(tensor) is Parameter
    if is_plain and not dispatch_stack_length() and not profiler_enabled():
        kind = tensor.dtype
        if kind in WHOLE:
            return 0.0
        if kind in SUMMED and tensor.is_cpu and transform_interpreter() is None and tracing_state() is None:
            enabled = is_grad_enabled()
            try:  # already here: an interrupt may come at any moment
                if enabled:
                    set_grad_enabled(False)
                return tensor.sum().item()
            except RuntimeError:  # a nested tensor has no sum
                pass
            finally:
                if enabled:
                    set_grad_enabled(True)
    return careful_total(tensor)


def careful_total(tensor: Tensor) -> float:
    """The same for any tensor, of any class, on any device, with modes of others around."""
    if not is_readable():
        return 0.0
    if is_profiled():
        return run_unprofiled(lambda: careful_total(tensor))
    with DisableTorchFunction(), DisableTorchDispatch():  # no_grad is not needed for what is detached
        values = floats(tensor)
        if values is None:
            return 0.0
        return values.sum(dtype=WIDENED.get(values.dtype)).item()


def is_readable() -> bool:
    """Whether values may be read now: not inside a functorch transform, nor while a graph is traced or captured."""
    if transform_interpreter() is not None or tracing_state() is not None:
        return False
    return not (HAS_CUDA and torch.cuda.is_current_stream_capturing())


def floats(tensor: Tensor) -> Tensor | None:
    """The floating-point values of a tensor, detached and dense; None if there are none that could be read."""
    tensor = local_part(tensor)
    has_floats = tensor.dtype not in WHOLE and not tensor.is_quantized
    if not has_floats or not has_values(tensor):
        return None
    values = Tensor.detach(tensor)
    if values.is_nested or values.layout is not torch.strided:
        values = stored_values(values)
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.dtype in SUMMABLE:
        return values
    return values.to(torch.float32)


def stored_values(tensor: Tensor) -> Tensor:
    """The values that a sparse or nested tensor keeps."""
    read = STORED.get(tensor.layout, Tensor.values)
    return read(tensor)


STORED: dict[Any, Callable[[Tensor], Tensor]] = {
    torch.sparse_coo: sparse_values,
    MKLDNN: Tensor.to_dense,
}


def finiteness_of(tensor: Tensor, found: float | None = None) -> Finiteness:
    """Which numbers that are not finite a tensor contains; its sum may be known already.

    >>> finiteness_of(torch.tensor([1.0, float("nan")])), finiteness_of(torch.full((2, 2), 3e38)).is_finite
    (Finiteness(nan=True, inf=False, minus_inf=False), True)
    """
    found = careful_total(tensor) if found is None else found
    if math.isfinite(found):
        return FINITE
    return run_isolated(lambda: _finiteness(tensor))


def _finiteness(tensor: Tensor) -> Finiteness:
    """The same, by looking at all values."""
    values = floats(tensor)
    if values is None:
        return FINITE
    low = values.amin().item()  # NaN if there is one
    if low == low:
        return Finiteness(False, values.amax().item() == math.inf, low == -math.inf)
    return Finiteness(True, bool(values.isposinf().any()), bool(values.isneginf().any()))


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor contains neither NaN nor Inf."""
    return finiteness_of(tensor).is_finite


def bad_share(tensors: list[Tensor]) -> float:
    """The share of the elements that are not finite, in the tensor with most of them."""
    return run_isolated(lambda: max(map(_bad_share, tensors), default=0.0))


def _bad_share(tensor: Tensor) -> float:
    values = floats(tensor)
    if values is None or not values.numel():
        return 0.0
    return 1.0 - float(values.isfinite().float().mean())


def has_least(inputs: list[Tensor], result: Tensor) -> bool:
    """Whether an input holds the least number of its dtype, with which scores are masked."""
    return run_isolated(lambda: any(_reaches_least(tensor, result) for tensor in inputs))


def _reaches_least(tensor: Tensor, result: Tensor) -> bool:
    """Whether a tensor holds the least number of its dtype, or of the dtype of a result."""
    found = floats(tensor)
    if found is None or not found.numel():
        return False
    least = max(torch.finfo(tensor.dtype).min, torch.finfo(result.dtype).min)
    return bool(found.amin().item() <= NEARLY_LEAST * least)


def first_bad(tensor: Tensor, *, nan: bool) -> tuple[int, ...] | None:
    """The index of the first NaN, or of the first infinity; None where elements have no plain index.

    >>> first_bad(torch.tensor([[0.0, 1.0], [float("nan"), 2.0]]), nan=True)
    (1, 0)
    """
    return run_isolated(lambda: index_of(local_part(tensor), nan=nan))


def index_of(tensor: Tensor, *, nan: bool) -> tuple[int, ...] | None:
    """The same for what this process holds of a tensor."""
    values = floats(tensor)
    has_index = tensor.layout is torch.strided and not tensor.is_nested
    if values is None or not has_index:
        return None
    find = Tensor.isnan if nan else Tensor.isinf
    bad = find(values)
    if tensor.is_complex():
        bad = bad.any(-1)
    first = int(bad.reshape(-1).to(torch.uint8).argmax())
    return tuple(map(int, numpy.unravel_index(first, tuple(tensor.shape))))


skip_when_compiling(total, careful_total, finiteness_of)
