"""Has a value changed? Prints of its content, exact to the last bit."""

from __future__ import annotations

from typing import Any

import numpy
import torch
import xxhash
from torch import Tensor

Print = tuple[Any, ...]


def print_of(value: Any) -> Print | None:
    """Something that is equal for equal values alone; None for a stranger, which counts as changed each time.

    >>> print_of(float("nan")) == print_of(float("nan")), print_of(0.0) == print_of(-0.0), print_of(1) == print_of(True)
    (True, False, False)
    """
    if isinstance(value, Tensor):
        if value.layout is not torch.strided or value.is_quantized:
            return None
        return "torch", value.dtype, value.shape, xxhash.xxh3_128_digest(bits(value))
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        if value.dtype.hasobject:
            return None
        return ("numpy", value.dtype.str, value.shape, _digest(value))
    if type(value) in (float, complex):
        return type(value), repr(value)  # NaN is itself here, and -0.0 is not 0.0
    if type(value) in (int, bool, str, bytes, type(None)):
        return (type(value), value)
    return None


def bits(tensor: Tensor) -> Any:
    """The bytes of a tensor."""
    own = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return own.reshape(-1).view(torch.uint8).numpy()


def _digest(array: Any) -> bytes:
    return xxhash.xxh3_128_digest(numpy.ascontiguousarray(array).tobytes())
