"""Tensors as they are noted: facts and identity without keeping anything alive.

A `Value` is a weak reference that also holds the facts of a tensor at one moment. A table by `id` finds the value of
a tensor again, and `value() is tensor` proves that the id was not reused. An operation gives each of its outputs a
new value, so a tensor that is changed in place has several, one after the other.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C import DisableTorchFunction

if TYPE_CHECKING:
    from insitu.trace.event import TensorFacts

# The producer of a tensor that was there before.
GIVEN = -1

Keep = Callable[[Tensor], Any]
Fresh = Callable[[Tensor, int], "Value"]


class Value(weakref.ref[Tensor]):
    """A tensor at one moment.

    `producer` is the offset of the call that made it, `stat` what `keep` made of it, `facts` the decoded form, once
    there is one.
    """

    __slots__ = ("device", "dtype", "facts", "producer", "requires_grad", "shape", "stat", "strides", "type")

    shape: tuple[Any, ...] | None
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    strides: tuple[Any, ...] | None
    type: type
    producer: int
    stat: Any
    facts: TensorFacts | None


Table = dict[int, Value]


def make_fresh(table: Table, keep: Keep | None) -> Fresh:
    """The function that gives a tensor a new value, made by the call at an offset."""

    def fresh(tensor: Tensor, producer: int) -> Value:
        value = Value(tensor)
        value.type = type(tensor)
        value.producer = producer
        value.stat = value.facts = None
        try:
            value.shape = tensor.shape
            value.strides = None if tensor.is_contiguous() else tensor.stride()
        except Exception:  # lazy, nested and sparse tensors have no plain shape, or no strides
            value.shape, value.strides = odd_shape(tensor), None
        value.dtype = tensor.dtype
        value.device = tensor.device
        value.requires_grad = tensor.requires_grad
        table[id(tensor)] = value
        if keep is not None and producer != GIVEN:
            value.stat = keep(tensor)
        return value

    return fresh


def guarded(fresh: Fresh) -> Fresh:
    """The same for where the function mode is on: there, reading a fact would come back to the tool as a call."""

    def fresh_unseen(tensor: Tensor, producer: int) -> Value:
        with DisableTorchFunction():
            return fresh(tensor, producer)

    return fresh_unseen


def odd_shape(tensor: Tensor) -> tuple[Any, ...] | None:
    """The shape of a tensor that has none to ask for: -1 where the parts of a nested tensor differ in size."""
    try:
        return tensor.shape
    except Exception:
        pass
    try:
        sizes = tensor._nested_tensor_size().tolist()  # type: ignore[operator]
    except Exception:
        return None
    return (len(sizes), *(column[0] if len(set(column)) == 1 else -1 for column in zip(*sizes, strict=True)))
