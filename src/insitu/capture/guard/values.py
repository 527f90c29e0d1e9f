"""Whether the values of a tensor are finite: with one sum, looking closer only where that is not."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from insitu.capture.keep import has_values, is_profiled, local, unnoticed, unprofiled
from insitu.capture.modes import skip_when_compiling
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

# The types that are summed as they are, and those whose sum needs a wider one. The others are converted.
SUMMED = {torch.float32: torch.float32, torch.float64: torch.float64}
WIDENED = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
DTYPES = [item for item in vars(torch).values() if isinstance(item, torch.dtype)]
WHOLE = frozenset(kind for kind in DTYPES if not kind.is_floating_point and not kind.is_complex)
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
        return unprofiled(lambda: careful_total(tensor))
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
    tensor = local(tensor)
    if tensor.dtype in WHOLE or not has_values(tensor) or tensor.is_quantized:
        return None
    values = Tensor.detach(tensor)
    if values.is_nested or values.layout is not torch.strided:
        values = stored(values)
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    if values.dtype not in SUMMED and values.dtype not in WIDENED:
        values = values.to(torch.float32)
    return values


def stored(tensor: Tensor) -> Tensor:
    """The values that a sparse or nested tensor keeps."""
    if tensor.layout is torch.sparse_coo:
        return sparse_values(tensor)
    return tensor.to_dense() if tensor.layout is MKLDNN else tensor.values()


class State(NamedTuple):
    """What there is in a tensor that is not finite."""

    nan: bool = False
    inf: bool = False
    minus: bool = False

    def __bool__(self) -> bool:
        return self.nan or self.inf or self.minus

    @property
    def news(self) -> bool:
        """Whether there is more than -inf, which is mostly a mask."""
        return self.nan or self.inf


FINITE = State()


def state_of(tensor: Tensor, found: float | None = None) -> State:
    """What is not finite in a tensor, whose sum may be known already.

    >>> state_of(torch.tensor([1.0, float("nan")])), bool(state_of(torch.full((2, 2), 3e38)))
    (State(nan=True, inf=False, minus=False), False)
    """
    found = careful_total(tensor) if found is None else found
    if math.isfinite(found):
        return FINITE
    return unnoticed(lambda: closer_state(tensor))


def closer_state(tensor: Tensor) -> State:
    """What is not finite in a tensor, by looking at all its values."""
    values = floats(tensor)
    if values is None:
        return FINITE
    low = values.amin().item()  # NaN if there is one
    if low != low:
        inf = values.isinf().any().item()
        return State(True, bool(inf and values.isposinf().any()), bool(inf and values.isneginf().any()))
    return State(False, values.amax().item() == math.inf, low == -math.inf)


def first_bad(tensor: Tensor, *, nan: bool) -> tuple[int, ...] | None:
    """The index of the first NaN, or of the first infinity; None where elements have no plain index.

    >>> first_bad(torch.tensor([[0.0, 1.0], [float("nan"), 2.0]]), nan=True)
    (1, 0)
    """
    return unnoticed(lambda: index_of(local(tensor), nan=nan))


def index_of(tensor: Tensor, *, nan: bool) -> tuple[int, ...] | None:
    """The same for what this process holds of a tensor."""
    values = floats(tensor)
    if values is None or tensor.is_nested or tensor.layout is not torch.strided:
        return None
    bad = values.isnan() if nan else values.isinf()
    if tensor.is_complex():
        bad = bad.any(-1)
    at = int(bad.reshape(-1).to(torch.uint8).argmax())
    index = []
    for size in reversed(tensor.shape):
        at, rest = divmod(at, size)
        index.append(rest)
    return tuple(reversed(index))


def tensors_in(item: Any, depth: int = 0) -> list[Tensor]:
    """Every tensor in nested lists, tuples and dicts, in the order in which calls note them."""
    if isinstance(item, Tensor):
        return [item]
    if depth > MOST_DEPTH:
        return []
    if isinstance(item, (list, tuple)):
        parts = (list if isinstance(item, list) else tuple).__iter__(item)  # type: ignore[arg-type]
    elif isinstance(item, dict):
        parts = iter(dict.values(item))
    else:
        return []
    return [tensor for part in parts for tensor in tensors_in(part, depth + 1)]


MOST_DEPTH = 8
skip_when_compiling(total, careful_total, state_of)
