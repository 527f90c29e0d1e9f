"""Values that were taken from a model, as the journal of a run takes them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy
import torch
from torch import Tensor

from insitu.capture.keep import unnoticed
from insitu.capture.values import SMALL
from insitu.store.journal import Entry


def entry(path: str, call: int, value: Any) -> Entry:
    """A value as the journal takes it."""
    if type(value) in SMALL:  # mostly: statistics are so many of them
        return path, call, None, (), value
    if isinstance(value, Tensor):
        return path, call, *unnoticed(lambda: dense(value))
    if isinstance(value, numpy.ndarray):
        return path, call, dtype_name(value.dtype), value.shape, numpy.ascontiguousarray(value).reshape(-1).view("u1")
    return path, call, None, (), value.item() if isinstance(value, numpy.generic) else value


def dense(tensor: Tensor) -> tuple[str, tuple[int, ...], Any]:
    """The dtype, the shape and the bytes of a tensor."""
    values = tensor.cpu().contiguous()
    return dtype_name(values.dtype), tuple(values.shape), values.reshape(-1).view(torch.uint8).numpy()


@lru_cache(maxsize=256)
def dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch or NumPy as torch spells it, or as NumPy does where torch has none."""
    name = str(dtype).removeprefix("torch.")
    return name if hasattr(torch, name) or name == "bool" else f"numpy:{dtype.str}"
