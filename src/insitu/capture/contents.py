"""What a tensor holds at one moment, as a digest of its bytes.

It decides whether what was kept of a tensor is still true. Torch's version counter does not: it misses fused
optimizers, running statistics, `.data`, NumPy views, DLPack, collectives and compiled code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import Parameter
from xxhash import xxh3_128_digest

from insitu.capture.isolation import run_isolated
from insitu.capture.tensor_memory import extent, has_values
from insitu.capture.torch_internals import SPARSE_PARTS
from insitu.trace.dtype import DTYPES

digest: Callable[[Any], bytes] = xxh3_128_digest

PLAIN_DTYPES = {getattr(torch, row.name): row.size for row in DTYPES if row.is_plain and hasattr(torch, row.name)}
EMPTY = b""
SMALL = 1 << 20  # bytes


def content_of(item: Any) -> Any:
    """A digest of all that a tensor or an array holds; None where it cannot be read."""
    kind = type(item)
    if kind is Tensor or kind is Parameter:
        found = quick_digest(item)
        if found is not None:
            return found
    try:
        if issubclass(kind, numpy.ndarray):
            return array_digest(item)
        return run_isolated(lambda: part_digests(item))
    except Exception:  # a type that cannot be read
        return None


def part_digests(tensor: Tensor) -> tuple[bytes, ...] | None:
    """The digests of the dense tensors that hold the values; None if the values cannot be read."""
    if not has_values(tensor):
        return None
    return tuple(map(digest_of, parts_of(Tensor.detach(tensor))))


def small_content_of(item: Any) -> Any:
    """The digest of a small tensor in the memory of this process, or of an array; None for all others."""
    try:
        if is_small(item):
            return content_of(item)
        return None
    except Exception:  # a tensor that does not tell its size
        return None


def is_small(item: Any) -> bool:
    """Whether the values can be read at once."""
    return isinstance(item, numpy.ndarray) or (item.is_cpu and item.nbytes <= SMALL)


def quick_digest(tensor: Tensor) -> bytes | None:
    """The digest of a plain tensor that is one piece of the memory of this process; None for all others.

    Its bytes are read where they are, and in the order in which they are there: to make an array of them first would
    take longer than to read most of them.
    """
    itemsize = PLAIN_DTYPES.get(tensor.dtype)
    if itemsize is None or not is_in_memory(tensor):
        return None
    try:
        if not is_one_piece(tensor):
            return None
        storage = tensor.untyped_storage()  # held while it is read
        size = tensor.numel() * itemsize
        end = tensor.storage_offset() * itemsize + size
        if end > storage.nbytes():
            return None
        return digest_at(tensor.data_ptr(), size)
    except RuntimeError:  # one that stands for another, such as inside vmap
        return None


def is_in_memory(tensor: Tensor) -> bool:
    """Whether the bytes of a tensor are in the memory of this process, as they are meant."""
    return tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_neg()


def is_one_piece(tensor: Tensor) -> bool:
    """Whether the elements of a tensor fill its memory without a gap, in any order."""
    return tensor.is_contiguous() or extent(tensor) == tensor.numel()


def digest_at(address: int, size: int) -> bytes | None:
    """The digest of so many bytes at an address; None for a tensor of zeros that has no memory."""
    if not size:
        return EMPTY
    if address:
        return digest((ctypes.c_char * size).from_address(address))
    return None


def parts_of(tensor: Tensor) -> list[Tensor]:
    """The dense tensors that hold the values."""
    if tensor.is_quantized:
        return [tensor.int_repr()]
    if tensor.is_nested:
        return [part.detach() for part in tensor.unbind()]
    if tensor.layout in SPARSE_PARTS:
        return [read(tensor) for read in SPARSE_PARTS[tensor.layout].values()]
    return [tensor]


def digest_of(tensor: Tensor) -> bytes:
    """A digest of the bytes of a dense tensor, in the order of its elements."""
    plain = without_repeats(tensor).resolve_conj().resolve_neg()
    return digest(plain.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def without_repeats(tensor: Tensor) -> Tensor:
    """The elements of a tensor that are in memory: in an expanded dimension it is the same element again and again."""
    if tensor.is_contiguous():
        return tensor
    expanded = [dim for dim, stride in enumerate(tensor.stride()) if stride == 0]
    for dim in expanded:
        tensor = tensor.narrow(dim, 0, min(tensor.shape[dim], 1))
    return tensor


def array_digest(item: Any) -> Any:
    """The digest of a NumPy array, and of its mask if it has one; None if there are objects in it."""
    whole = numpy.ndarray.view(item, numpy.ndarray)
    if whole.dtype.hasobject:
        return None
    values = digest(numpy.ascontiguousarray(whole).reshape(-1).view(numpy.uint8))
    if issubclass(type(item), numpy.ma.MaskedArray):
        return values, digest(numpy.ma.getmaskarray(item))
    return values, None
