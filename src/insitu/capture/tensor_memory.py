"""Whether the values of a tensor are in memory of this process where they can be read, and where they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from insitu.capture.torch_internals import (
    LOCAL_TENSOR,
    NO_DISPATCH,
    FakeTensor,
    is_functorch_wrapped,
    is_zero_tensor,
)

PLAIN_CLASSES = (Tensor, torch.nn.Parameter)


def local_part(tensor: Any) -> Any:
    """The part of a tensor in this process: of a DTensor the local part; to gather it would wait for other ranks."""
    part = getattr(tensor, LOCAL_TENSOR, None)
    if isinstance(part, Tensor):
        return part
    return tensor


def has_values(tensor: Tensor) -> bool:
    """Whether there is memory to read; torch itself crashes on tensors without.

    Tensors on the meta device, fake tensors, tensors inside a functorch transform and those whose storage was freed, as
    FSDP does, have none.
    """
    if tensor.device.type == "meta":
        return False
    if not is_plain_class(tensor):
        return False
    if is_zero_tensor(tensor) or is_transformed(tensor):
        return False
    return fits_its_storage(tensor)


def fits_its_storage(tensor: Tensor) -> bool:
    """Whether the storage of a tensor is as large as its shape and strides say; True for layouts without strides."""
    count = tensor.numel()
    if not count or not is_dense(tensor):
        return True
    try:
        end = tensor.storage_offset() + (count if tensor.is_contiguous() else extent(tensor))
        return end * tensor.element_size() <= tensor.untyped_storage().nbytes()
    except NotImplementedError:  # a backend whose tensors have no storage
        return True


def is_dense(tensor: Tensor) -> bool:
    """Whether the values of a tensor are its elements: it is not sparse, quantized or nested."""
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested


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
    kind = type(tensor)
    return kind in PLAIN_CLASSES or kind.__torch_dispatch__ is NO_DISPATCH
