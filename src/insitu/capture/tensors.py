"""Tensors, and NumPy arrays, as they are noted: facts and identity without keeping anything alive.

A `Value` is a weak reference that also holds the facts of a tensor at one moment. A table by `id` finds the value of
a tensor again, and `value() is tensor` proves that the id was not reused. An operation gives each of its outputs a
new value, so a tensor that is changed in place has several, one after the other.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy
from torch import Tensor
from torch._C import DisableTorchFunction
from torch.nn import Parameter
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from insitu.capture.probe import Probe
    from insitu.trace.event import TensorFacts

# The producer of a tensor that was there before.
GIVEN = -1
MOST_DTYPE = 40  # characters: a structured array may have any number of fields

Keep = Callable[[Tensor], Any]
Fresh = Callable[[Tensor, int], "Value"]


class Value(weakref.ref[Tensor]):
    """A tensor at one moment.

    `layout` is shape, dtype and device, and the strides too where it is not contiguous; equal ones are one object.
    `producer` is the offset of the call that made it; `facts` is the decoded form, once there is one.
    """

    __slots__ = ("facts", "layout", "producer", "requires_grad")

    layout: Layout
    requires_grad: bool
    producer: int
    facts: TensorFacts | None


class ParameterValue(Value):
    """A parameter at one moment."""

    __slots__ = ()


class RichValue(Value):
    """A tensor of which there is more to say: its class is another one, or `keep` made something of it."""

    __slots__ = ("grad", "stat", "type", "version")

    stat: Any
    type: type
    grad: RichValue | None
    version: int


Layout = tuple[Any, ...]
Table = dict[int, Value]


def make_fresh(probe: Probe, keep: Keep | None) -> Fresh:
    """The function that gives a tensor a new value, made by the call at an offset."""
    table = probe.table
    layouts: dict[Layout, Layout] = {}
    same = layouts.setdefault

    def fresh(tensor: Tensor, producer: int) -> Value:
        kind = type(tensor)
        if keep is not None or (kind is not Tensor and kind is not Parameter):
            return rich(tensor, producer)
        value = Value(tensor) if kind is Tensor else ParameterValue(tensor)
        value.producer = producer
        value.facts = None
        try:
            layout: Layout = (tensor.shape, tensor.dtype, tensor.device)
            if not tensor.is_contiguous():
                layout += (tensor.stride(),)
            value.layout = same(layout, layout)
        except Exception:  # sparse tensors have no strides, strided nested ones no shape
            value.layout = (odd_shape(tensor), tensor.dtype, tensor.device)
        value.requires_grad = tensor.requires_grad
        table[id(tensor)] = value
        return value

    def shared(layout: Layout) -> Layout:
        try:
            return same(layout, layout)
        except Exception:  # a symbolic size cannot be hashed
            return layout

    def rich(tensor: Tensor, producer: int) -> Value:
        value = RichValue(tensor)
        value.type = type(tensor)
        value.producer = producer
        value.facts = value.stat = value.grad = None
        if issubclass(type(tensor), numpy.ndarray):
            value.layout, value.requires_grad = shared(array_layout(tensor)), False
        else:
            value.layout, value.requires_grad = shared(unheard(probe, tensor)), tensor.requires_grad
        table[id(tensor)] = value
        if keep is not None:
            value.version = version_of(tensor)
            value.stat = kept(probe, keep, tensor)
        return value

    return fresh


def version_of(tensor: Any) -> int:
    """How often a tensor was changed in place; -1 for one that does not count it."""
    try:
        return tensor._version  # type: ignore[no-any-return]
    except (RuntimeError, AttributeError):  # made in inference mode; an array
        return -1


def has_changed(value: Value, tensor: Tensor) -> bool:
    """Whether a tensor that was there before has changed, out of our sight, since something of it was kept."""
    return type(value) is RichValue and value.producer == GIVEN and value.version != version_of(tensor)


def kept(probe: Probe, keep: Keep, tensor: Tensor) -> Any:
    """What `keep` makes of a tensor; what it calls for that is no call of the user, and its time not theirs."""
    began = perf_counter()
    taking, paused = probe.taking, probe.paused
    probe.taking, probe.paused = False, True
    try:
        return keep(tensor)
    finally:
        probe.taking, probe.paused = taking, paused
        probe.spent += perf_counter() - began


def unheard(probe: Probe, tensor: Tensor) -> Layout:
    """The layout of any tensor. A subclass may dispatch to tell it: that is no call of the user."""
    taking, probe.taking = probe.taking, False
    try:
        return layout_of(tensor)
    finally:
        probe.taking = taking


def layout_of(tensor: Tensor) -> Layout:
    """Shape, dtype and device, and the strides too where it is not contiguous."""
    try:
        layout = (tensor.shape, tensor.dtype, tensor.device)
        return layout if tensor.is_contiguous() else (*layout, tensor.stride())
    except Exception:
        return (odd_shape(tensor), tensor.dtype, tensor.device)


def array_layout(array: Any) -> Layout:
    """The layout of a NumPy array; strides are counted in elements, as torch does."""
    shape, dtype = numpy.ndarray.shape.__get__(array), numpy.ndarray.dtype.__get__(array)
    if numpy.ndarray.flags.__get__(array).c_contiguous or not dtype.itemsize:
        return (shape, dtype, "cpu")
    strides = numpy.ndarray.strides.__get__(array)
    return (shape, dtype, "cpu", tuple(stride // dtype.itemsize for stride in strides))


def guarded(fresh: Fresh) -> Fresh:
    """The same for where the function mode is on: there, reading a fact would come back to the tool as a call."""

    def fresh_unseen(tensor: Tensor, producer: int) -> Value:
        with DisableTorchFunction():
            return fresh(tensor, producer)

    return fresh_unseen


@lru_cache(maxsize=256)
def short_dtype(dtype: Any) -> str:
    """`f32`, `bf16`, `i64`, `b8`, `f8e4m3fn`: the common short form of any dtype, of torch or NumPy.

    >>> import torch
    >>> short_dtype(torch.float32), short_dtype(torch.bool), short_dtype(torch.float8_e4m3fn)
    ('f32', 'b8', 'f8e4m3fn')
    """
    name = str(dtype).removeprefix("torch.")
    if name == "bool":
        return "b8"
    match = re.fullmatch(r"(bfloat|float|complex|uint|int)(\d+)(?:_(.*))?", name)
    if match is None:
        return name if len(name) <= MOST_DTYPE else name[:MOST_DTYPE] + "…"
    letter = {"bfloat": "bf", "float": "f", "complex": "c", "uint": "u", "int": "i"}[match[1]]
    return f"{letter}{match[2]}{match[3] or ''}"


def odd_shape(tensor: Tensor) -> tuple[Any, ...] | None:
    """The shape of a tensor that may have none to ask for: -1 where the parts of a nested tensor differ in size."""
    if not tensor.is_nested:
        return tensor.shape if not isinstance(tensor, UninitializedTensorMixin) else None
    sizes = tensor._nested_tensor_size().tolist()
    return (len(sizes), *(column[0] if len(set(column)) == 1 else -1 for column in zip(*sizes, strict=True)))
