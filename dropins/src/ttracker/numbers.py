"""The numbers of floating tensors, for hooks that monitor accuracy: mean, least, largest and sum."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any


def numbers(value: Any) -> str:
    """The numbers of a floating tensor or array; empty for all else, and for what has no values to look at.

    A tensor that is spread over processes is left alone: asking for its sum would wait for the others.

    >>> import torch
    >>> numbers(torch.tensor([0.5, 1.0, 3.0])), numbers(torch.tensor([1, 2]))
    (' | mean=1.5 min=0.5 max=3 sum=4.5', '')
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    try:
        if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter):
            found = of_tensor(torch, value)
        elif numpy is not None and isinstance(value, numpy.ndarray):
            found = of_array(numpy, value)
        else:
            return ""
    except Exception:  # no values, as inside vmap, or a type that cannot be summed
        return ""
    if found:
        return f" | mean={found[0]:.6g} min={found[1]:.6g} max={found[2]:.6g} sum={found[3]:.6g}"
    return ""


Found = tuple[float, float, float, float] | None


def of_tensor(torch: Any, tensor: Any) -> Found:
    """Mean, least, largest and sum of a tensor, so that neither autograd nor any mode notices."""
    if not tensor.is_floating_point() or tensor.layout is not torch.strided or not is_readable(torch, tensor):
        return None
    with ExitStack() as stack:
        for context in (torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch()):
            stack.enter_context(context)
        own = tensor.detach()
        own = own.float() if own.dtype.itemsize < 2 else own  # float8 has no arithmetic
        total = own.sum(dtype=None if own.device.type == "mps" else torch.float64).item()
        low, high = own.aminmax()
        return total / own.numel(), low.item(), high.item(), total


def is_readable(torch: Any, tensor: Any) -> bool:
    """Whether a tensor has values that may be read now: a CUDA graph that is being captured must not wait."""
    if tensor.device.type == "meta" or tensor.is_nested or not tensor.numel():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def of_array(numpy: Any, array: Any) -> Found:
    """The numbers of an array."""
    if array.dtype.kind != "f" or not array.size:
        return None
    with numpy.errstate(all="ignore"):
        total = float(array.sum(dtype=numpy.float64))
        return total / array.size, float(array.min()), float(array.max()), total
