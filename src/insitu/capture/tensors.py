"""Tensors and NumPy arrays as records hold them: facts and identity without keeping anything alive.

A `Value` is a weak reference that also holds the facts of a tensor at one moment. A table by `id` finds the value of
a tensor again, and `value() is tensor` proves that the id was not reused. An operation gives each of its outputs a
new value, so a tensor that is changed in place has several, one after the other.

A tensor can change where no probe sees it: `Tensor.set_` does not pass the function mode, other threads have modes of
their own, a view or a NumPy array writes into the same memory. Therefore a value is compared with its tensor each time
the tensor is met again (`make_renew`). Its facts are read again. What `keep` made of it holds as long as a digest of
the tensor's bytes is the same: torch's version counter misses too many ways to write.

The functions that `make_fresh`, `make_renew` and `make_current` return are dense on purpose: they run for each tensor
of each event.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from insitu.capture.torch_internals import DisableTorchFunction, nested_sizes
from insitu.trace.dtype import dtype_named

if TYPE_CHECKING:
    from insitu.capture.deferral import Deferral
    from insitu.capture.probe import Probe
    from insitu.capture.tape import Tape
    from insitu.capture.writes import Writes
    from insitu.trace.event import TensorFacts

# Producers that are not offsets of calls on the tape.
GIVEN = -1  # the tensor was there before, or was changed by something that is not on the tape
FORGOTTEN = GIVEN - 1  # the call is no longer on the tape, and its id is not known
EARLIER = FORGOTTEN - 1  # the call is no longer on the tape: EARLIER - id
# One object for the device of most tensors: `is_cpu` is cheaper than to make and compare a device.
with DisableTorchFunction():
    CPU = torch.device("cpu")

Keep = Callable[[Tensor], Any]
Content = Callable[[Any], Any]
Fresh = Callable[[Any, int], "Value"]
Renew = Callable[["Value", Any, int | None], "Value"]
Current = Callable[[Any], "Value"]


class TensorRef(weakref.ref[Tensor]):
    """A weak reference of ours to a tensor, which `torch.utils.swap_tensors` does not see."""

    __slots__ = ()


class Value(TensorRef):
    """A tensor at one moment.

    `layout` is shape, dtype and device, and the strides too where it is not contiguous; equal ones are one object.
    `producer` is the offset of the call that made it; `facts` is the decoded form, once there is one. `requires_grad`
    is None as long as it is not known: an operator returns below autograd, which says so later. `kind` is the class of
    the tensor.
    """

    __slots__ = ("facts", "layout", "producer", "requires_grad")

    kind: Any = Tensor
    layout: Layout
    requires_grad: bool | None
    producer: int
    facts: TensorFacts | None


class ParameterValue(Value):
    """A parameter at one moment."""

    __slots__ = ()

    kind = Parameter


class RichValue(Value):
    """A tensor of another class, or one to which `keep` was applied.

    `stat` is what `keep` returned, `content` the digest of the bytes that `keep` has seen, `tape_length` the length of
    the tape at that moment.
    """

    __slots__ = ("content", "grad", "kind", "stat", "tape_length")

    stat: Any
    grad: RichValue | None
    content: Any
    tape_length: int


class DeferredValue(RichValue):
    """A tensor whose fingerprint is still on its device: nobody knows yet whether it is what it was.

    `earlier` is what was known of the tensor when it was met before; if the fingerprints turn out to be equal, that
    holds. `later` is the next one. `root` finds which of them it is.
    """

    __slots__ = ("earlier", "later")

    earlier: DeferredValue | None
    later: DeferredValue | None

    def root(self) -> DeferredValue:
        """The first of the values before this one between which the tensor has not changed."""
        value = self
        while value.earlier is not None and is_unchanged(value, value.earlier):
            value = value.earlier
        return value

    def last_gradient(self) -> RichValue | None:
        """The last gradient that was recorded while the tensor had not changed."""
        value, found = self, self.grad
        while value.later is not None and is_unchanged(value.later, value):
            value = value.later
            found = value.grad or found
        return found

    @property
    def maker(self) -> int:
        """The call that has made the tensor, as far as it is known now; GIVEN if no recorded call has."""
        value = self
        while value.producer == GIVEN and value.earlier is not None:
            value = value.earlier
        return value.producer

    def shorten(self) -> DeferredValue:
        """Forget the values between this one and the first that is equal to it, which is returned."""
        root = self.root()
        root.grad = root.last_gradient()
        root.earlier = None
        if root is not self:
            root.later, self.earlier = self, root
        return root


def with_roots(found: Iterable[Value]) -> list[Value]:
    """Values, and the earlier ones that they turn out to be equal to."""
    values = list(found)
    roots = [value.shorten() for value in values if type(value) is DeferredValue]
    return list({id(value): value for value in (*values, *roots)}.values())


def is_unchanged(value: RichValue, earlier: RichValue) -> bool:
    """Whether a tensor has the same bytes as before; where it cannot be read, nothing was kept of it either."""
    if value.content is None or earlier.content is None:
        return value.content is earlier.content and earlier.stat is None
    return bool(value.content.is_same(earlier.content))


Layout = tuple[Any, ...]
Table = dict[int, Value]


class ValueOwner(Protocol):
    """A probe, as far as values know it: its table, its tape, and whether it records at the moment."""

    table: Table
    tape: Tape
    writes: Writes
    taking: bool
    paused: bool
    spent: float


def make_fresh(probe: ValueOwner, keep: Keep | None, content: Content, deferral: Deferral | None = None) -> Fresh:
    """The function that gives a tensor a new value, made by the call at an offset."""
    table = probe.table
    new_rich = RichValue if keep is None or deferral is None else new_rich_value(deferral)
    layouts: dict[Layout, Layout] = {}
    same = layouts.setdefault

    def fresh(tensor: Any, producer: int) -> Value:
        kind = type(tensor)
        if keep is not None or (kind is not Tensor and kind is not Parameter):
            return rich(tensor, producer)
        value = Value(tensor) if kind is Tensor else ParameterValue(tensor)
        value.producer = producer
        value.facts = None
        try:
            layout: Layout = (tensor.shape, tensor.dtype, CPU if tensor.is_cpu else tensor.device)
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

    def rich(tensor: Any, producer: int) -> Value:
        value = new_rich(tensor)
        value.kind, value.producer, value.tape_length = type(tensor), producer, len(probe.tape)
        value.facts = value.stat = value.grad = value.content = None
        value.layout, value.requires_grad = shared(layout_unrecorded(probe, tensor)), requires_grad_of(tensor)
        before = table.get(id(tensor))
        table[id(tensor)] = value
        if keep is not None:
            if producer >= 0 and before is not None and before() is tensor and before.producer != producer:
                probe.writes.add(tensor, producer)
            value.content = content_untimed(probe, content, tensor)
            value.stat = apply_keep(probe, keep, tensor)
        return value

    return fresh


def new_rich_value(deferral: Deferral) -> Callable[[Any], RichValue]:
    """The function that makes an empty value for a tensor whose numbers may wait on their device."""

    def new_rich(tensor: Any) -> RichValue:
        if not deferral.applies_to(tensor):
            return RichValue(tensor)
        value = DeferredValue(tensor)
        value.earlier = value.later = None
        return value

    return new_rich


def make_meet_again(probe: Probe, deferral: Deferral) -> Renew:
    """The function that gives a tensor a new value whenever it is met: whether it has changed is found out later.

    Statistics are taken again if torch knows of a change, or if the last ones are from before the last copy from the
    device. Otherwise a change that torch does not know of leaves a value without statistics.
    """
    keep, table = probe.scope.keep, probe.table

    def meet_again(earlier: Any, tensor: Any, at: int | None) -> Value:
        value = DeferredValue(tensor)
        value.kind, value.layout, value.requires_grad = type(tensor), earlier.layout, requires_grad_of(tensor)
        value.tape_length = len(probe.tape)
        value.producer = probe.writes.last(tensor, earlier.tape_length) if at is None else at
        value.facts = value.stat = value.grad = value.later = None
        value.earlier, earlier.later = earlier, value
        table[id(tensor)] = value
        known = earlier.content
        is_current = known is not None and deferral.is_current(known, tensor)
        value.content = content_untimed(probe, deferral.content, tensor)
        if keep is not None and not is_current:
            value.stat = apply_keep(probe, keep, tensor)
        return value

    return meet_again


def make_renew(probe: Probe, fresh: Fresh, content: Content) -> Renew:
    """The function that compares a value with its tensor: it returns the value if that holds, and a new one if not.

    It is given the call that has just returned the tensor, which has made it what it is, or None.
    """
    keeps = probe.scope.keep is not None
    deferral = probe.services.deferral
    meet_again = make_meet_again(probe, deferral) if keeps and deferral is not None else None

    def renew(value: Any, tensor: Any, at: int | None) -> Value:
        if value.requires_grad is None:  # an operator returned it below autograd
            value.requires_grad = requires_grad_of(tensor)
            if value.facts is not None:
                value.facts.requires_grad = value.requires_grad
        is_same = has_same_facts(value, tensor)
        if not is_same and not is_same_layout(value.layout, layout_unrecorded(probe, tensor)):
            return fresh(tensor, GIVEN if at is None else at)
        if meet_again is not None and type(value) is DeferredValue:
            is_alike = is_same or (value.kind is type(tensor) and value.requires_grad is requires_grad_of(tensor))
            return meet_again(value, tensor, at) if is_alike else fresh(tensor, value.maker)
        if keeps and not holds(value, tensor):
            return fresh(tensor, probe.writes.last(tensor, value.tape_length) if at is None else at)
        if is_same or (value.kind is type(tensor) and value.requires_grad is requires_grad_of(tensor)):
            return value  # type: ignore[no-any-return]
        return fresh(tensor, value.producer)

    def holds(value: RichValue, tensor: Any) -> bool:
        """Whether what was kept is still true; nobody knows where the bytes cannot be read."""
        now = content_untimed(probe, content, tensor)
        return bool(value.content == now) and (now is not None or value.stat is None)

    return renew


def has_same_facts(value: Value, tensor: Any) -> bool:
    """Whether the facts of a plain tensor are those of its value; False where more must be asked (see `make_renew`)."""
    kind, layout = type(tensor), value.layout
    if value.kind is not kind or (kind is not Tensor and kind is not Parameter):
        return False
    try:
        return (
            layout[1] is tensor.dtype
            and value.requires_grad is tensor.requires_grad
            and layout[0] == tensor.shape
            and (tensor.is_cpu if layout[2] is CPU else layout[2] == tensor.device)
            and (tensor.is_contiguous() if len(layout) == 3 else layout[3] == tensor.stride())
        )
    except Exception:  # sparse tensors have no strides, strided nested ones no shape
        return False


def make_current(probe: Probe, fresh: Fresh, renew: Renew) -> Current:
    """The function that finds the value of a tensor as it is now."""
    get, keeps = probe.table.get, probe.scope.keep is not None

    def current(tensor: Any) -> Value:
        value = get(id(tensor))
        if value is None or value() is not tensor:
            return fresh(tensor, GIVEN)
        return value if not keeps and has_same_facts(value, tensor) else renew(value, tensor, None)

    return current


def requires_grad_of(tensor: Any) -> bool:
    """Whether a tensor requires a gradient; an array never does."""
    return not issubclass(type(tensor), numpy.ndarray) and tensor.requires_grad


def content_untimed(probe: ValueOwner, content: Content, tensor: Any) -> Any:
    """The digest of a tensor; the time that it takes is not counted."""
    began = perf_counter()
    try:
        return content(tensor)
    finally:
        probe.spent += perf_counter() - began


def apply_keep(probe: ValueOwner, keep: Keep, tensor: Tensor) -> Any:
    """Apply `keep` to a tensor with recording paused; its time is not counted."""
    began = perf_counter()
    taking, paused = probe.taking, probe.paused
    probe.taking, probe.paused = False, True
    try:
        return keep(tensor)
    finally:
        probe.taking, probe.paused = taking, paused
        probe.spent += perf_counter() - began


def layout_unrecorded(probe: ValueOwner, tensor: Any) -> Layout:
    """The layout of any tensor, with recording paused: a subclass may dispatch to tell it."""
    taking, probe.taking = probe.taking, False
    try:
        return layout_of(tensor)
    finally:
        probe.taking = taking


def layout_of(tensor: Any) -> Layout:
    """Shape, dtype and device of a tensor or array, and the strides too where it is not contiguous."""
    if issubclass(type(tensor), numpy.ndarray):
        return array_layout(tensor)
    try:
        layout = (tensor.shape, tensor.dtype, CPU if tensor.is_cpu else tensor.device)
        return layout if tensor.is_contiguous() else (*layout, tensor.stride())
    except Exception:
        return (odd_shape(tensor), tensor.dtype, tensor.device)


def is_same_layout(one: Layout, other: Layout) -> bool:
    """Whether two layouts are equal; symbolic sizes are compared by their text, for `==` would have to decide them."""
    return one is other or (len(one) == len(other) and [*map(_plain, one)] == [*map(_plain, other)])


def _plain(item: Any) -> Any:
    if not isinstance(item, tuple):
        return item
    return [size if type(size) is int else str(size) for size in item]


def array_layout(array: Any) -> Layout:
    """The layout of a NumPy array; strides are counted in elements, as torch does."""
    shape, dtype = numpy.ndarray.shape.__get__(array), numpy.ndarray.dtype.__get__(array)
    if numpy.ndarray.flags.__get__(array).c_contiguous or not dtype.itemsize:
        return (shape, dtype, "cpu")
    strides = numpy.ndarray.strides.__get__(array)
    return (shape, dtype, "cpu", tuple(stride // dtype.itemsize for stride in strides))


class Values(NamedTuple):
    """The functions that give tensors their values: a new one; one that holds; the one that a tensor has now."""

    fresh: Fresh
    renew: Renew
    current: Current


def make_values(probe: Probe, keep: Keep | None, content: Content) -> Values:
    """These functions, for a probe."""
    fresh = make_fresh(probe, keep, content, probe.services.deferral)
    renew = make_renew(probe, fresh, content)
    return Values(fresh, renew, make_current(probe, fresh, renew))


def guarded(values: Values) -> Values:
    """The same for where the function mode is on: there, reading a fact would come back to the tool as a call."""
    return Values(with_mode_off(values.fresh), with_mode_off(values.renew), with_mode_off(values.current))


def with_mode_off(function: Callable[..., Value]) -> Callable[..., Value]:
    """The same function, with the function mode off."""

    def call(*args: Any) -> Value:
        with DisableTorchFunction():
            return function(*args)

    return call


@lru_cache(maxsize=256)
def short_dtype(dtype: Any) -> str:
    """`f32`, `bf16`, `i64`, `b8`, `f8e4m3fn`: the common short form of any dtype, of torch or NumPy.

    >>> import torch
    >>> short_dtype(torch.float32), short_dtype(torch.bool), short_dtype(torch.float8_e4m3fn)
    ('f32', 'b8', 'f8e4m3fn')
    """
    return dtype_named(str(dtype).removeprefix("torch.")).short


def odd_shape(tensor: Tensor) -> tuple[Any, ...] | None:
    """The shape of a tensor that may have none to ask for: -1 where the parts of a nested tensor differ in size."""
    if not tensor.is_nested:
        return tensor.shape if not isinstance(tensor, UninitializedTensorMixin) else None
    sizes = nested_sizes(tensor).tolist()
    return (len(sizes), *(column[0] if len(set(column)) == 1 else -1 for column in zip(*sizes, strict=True)))
