"""Copies of tensors of every kind, as the dense ones that a file can hold.

Nothing here runs code of a class that dispatches in Python: with dispatch turned off, an operator on a tensor that has
no memory ends the process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.statistics import stats
from insitu.capture.tensor_memory import is_fake, is_plain_class, is_transformed, local_part
from insitu.capture.torch_internals import COLLECTIVES, SPARSE_PARTS, jagged_parts
from insitu.capture.values.layouts import layout_facts

# A path, the copy, and facts about it that its values do not show.
Copy = tuple[str, Any, dict[str, Any]]

PLAIN = (Tensor, nn.Parameter)
MOST_COMPONENTS = 1000  # of a nested tensor
MOST_WRAPPERS = 8  # tensors that wrap each other


class LeftOutError(Exception):
    """A value cannot be recorded; the text is the reason."""


def is_dense(tensor: Any) -> bool:
    """Whether a tensor is one block of memory, as most are."""
    if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
        return False
    return not (tensor.is_nested or tensor.is_quantized or has_no_values(tensor))


def has_no_values(tensor: Tensor) -> bool:
    """Whether a tensor of a class of torch has no values to read."""
    return tensor.is_meta or is_transformed(tensor)


def dense_copy(tensor: Tensor) -> Tensor:
    """A copy of a dense tensor; one whose elements are smaller than a byte is copied by its bytes."""
    try:
        return tensor.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()
    except NotImplementedError:
        return tensor.view(torch.uint8).clone(memory_format=torch.contiguous_format).view(tensor.dtype)


def copies(path: str, value: Any, depth: int = 0) -> Iterator[Copy]:
    """Copies of a tensor or array that later changes of the original do not reach.

    Raises LeftOutError, after the copies that are possible, if a part cannot be copied.
    """
    if not isinstance(value, Tensor):
        yield path, value.copy() if isinstance(value, numpy.ndarray) else value, {}
    elif is_plain_class(value):
        yield from _copies_of_plain(path, value.detach())
    elif depth < MOST_WRAPPERS:
        yield from _copies_of_wrapper(path, value, depth)
    else:
        raise LeftOutError(f"a {type(value).__name__} wraps tensors more than {MOST_WRAPPERS} levels deep")


def _copies_of_plain(path: str, tensor: Tensor) -> Iterator[Copy]:
    if tensor.device.type == "meta":
        raise LeftOutError("tensors on the meta device have no values")
    if is_transformed(tensor):
        raise LeftOutError("its values cannot be read inside a transform of torch.func")
    if tensor.is_quantized:
        yield from _copies_of_quantized(path, tensor)
    elif tensor.layout in SPARSE_PARTS:
        facts = {"layout": str(tensor.layout).removeprefix("torch."), "dense_shape": list(tensor.shape)}
        for name, read in SPARSE_PARTS[tensor.layout].items():
            yield f"{path}.{name}", read(tensor).clone(), facts
    elif tensor.is_nested:
        components = tensor.unbind()
        yield from _components(path, len(components), lambda index: components[index])
    elif tensor.layout is torch.strided:
        yield path, dense_copy(tensor), {}
    else:
        yield path, dense_copy(tensor.to_dense()), {}


def _copies_of_quantized(path: str, tensor: Tensor) -> Iterator[Copy]:
    yield path, tensor.int_repr(), {}
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        yield f"{path}.scale", tensor.q_scale(), {}
        yield f"{path}.zero_point", tensor.q_zero_point(), {}
        return
    facts = {"axis": tensor.q_per_channel_axis()}
    yield f"{path}.scale", tensor.q_per_channel_scales().clone(), facts
    yield f"{path}.zero_point", tensor.q_per_channel_zero_points().clone(), facts


def _copies_of_wrapper(path: str, tensor: Tensor, depth: int) -> Iterator[Copy]:
    """Copies of a tensor whose class dispatches in Python; its values may be in other tensors."""
    inner = inner_tensor(tensor)
    if inner is not None:
        yield from _with_facts(copies(path, inner, depth + 1), layout_facts(tensor))
    elif is_fake(tensor):
        raise LeftOutError("a FakeTensor has no values")
    elif tensor.layout is torch.jagged:
        yield from _copies_of_jagged(path, tensor)
    elif tensor.data_ptr():
        yield path, dense_copy(tensor.detach()), {"type": type(tensor).__name__}
    elif hasattr(tensor, "__tensor_flatten__"):
        facts = {"type": type(tensor).__name__, "outer_shape": list(tensor.shape)}
        for name in tensor.__tensor_flatten__()[0]:
            yield from _with_facts(copies(f"{path}.{name}", getattr(tensor, name), depth + 1), facts)
    else:
        raise LeftOutError(f"a {type(tensor).__name__} has no values that can be read: it has no __tensor_flatten__")


def _with_facts(inner: Iterator[Copy], facts: dict[str, Any]) -> Iterator[Copy]:
    for path, copy, known in inner:
        yield path, copy, {**facts, **known}


def inner_tensor(tensor: Tensor) -> Tensor | None:
    """The tensor that has all values of a wrapper: the local part of a DTensor, the result of a collective."""
    part = local_part(tensor)
    if part is not tensor:
        return part  # type: ignore[no-any-return]
    collectives = sys.modules.get(COLLECTIVES)
    if collectives is not None and isinstance(tensor, collectives.AsyncCollectiveTensor):
        # The collective runs already on this rank, and every user of its result waits for it too.
        return collectives.wait_tensor(tensor.elem)  # type: ignore[no-any-return]
    return None


def _copies_of_jagged(path: str, tensor: Any) -> Iterator[Copy]:
    values, starts, lengths, along = jagged_parts(tensor)
    if lengths is None:
        lengths = [end - start for start, end in pairwise(starts)]
    yield from _components(path, len(lengths), lambda index: values.narrow(along, starts[index], lengths[index]))


def _components(path: str, count: int, component: Callable[[int], Tensor]) -> Iterator[Copy]:
    for index in range(min(count, MOST_COMPONENTS)):
        yield f"{path}.{index}", dense_copy(component(index)), {}
    if count > MOST_COMPONENTS:
        raise LeftOutError(f"it has {count:,} components, and only the first {MOST_COMPONENTS:,} are recorded")


def readable(tensor: Tensor, keep: Callable[[Any], Any]) -> Tensor:
    """The tensor that `keep` is called with; LeftOutError if there is none."""
    if is_plain_class(tensor):
        if has_no_values(tensor):
            next(copies("", tensor))  # raises the reason
        return tensor.detach()
    inner = inner_tensor(tensor)
    if inner is not None:
        return readable(inner, keep)
    if keep is stats and tensor.layout is torch.jagged:
        return jagged_parts(tensor).values
    if not has_memory(tensor):
        kind = type(tensor).__name__
        raise LeftOutError(f"no function is called with a {kind}: keep='values' records the tensors that it wraps")
    return tensor.detach()


def has_memory(tensor: Tensor) -> bool:
    """Whether a tensor whose class dispatches in Python has memory of its own."""
    return tensor.layout is torch.strided and not is_fake(tensor) and bool(tensor.data_ptr())
