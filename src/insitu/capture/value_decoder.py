"""From values on a tape to facts of tensors: plain data, made when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from insitu.capture.deferral import settle
from insitu.capture.tensors import EARLIER, DeferredValue, Layout, RichValue, Value, short_dtype
from insitu.errors import is_interrupt, tell
from insitu.trace.event import Stats, TensorFacts

if TYPE_CHECKING:
    from insitu.capture.tape_decoder import TapeDecoder

# Shape, short dtype, device and strides.
PlainLayout = tuple[Any, ...]


class ValueDecoder:
    """Turns the values of one session into facts, and numbers the tensors in the order in which they are met.

    With `is_live`, values keep their facts.
    """

    def __init__(self) -> None:
        self.is_live = False
        self._next_number = 0
        self._has_told = False
        self._decoded: list[Value] = []
        self._layouts: dict[int, tuple[Layout, PlainLayout]] = {}

    def copy(self) -> ValueDecoder:
        """A decoder that goes on from here, and leaves this one as it is."""
        same = ValueDecoder()
        same.is_live, same._next_number, same._has_told = self.is_live, self._next_number, self._has_told
        return same

    def facts(self, value: Value, tape: TapeDecoder) -> TensorFacts:
        """The facts of a tensor on a tape; the same object whenever it is asked for again."""
        if value.facts is not None:
            return value.facts
        if type(value) is DeferredValue and (root := value.root()) is not value:
            return self._facts_of_root(value, root, tape)
        shape, dtype, device, strides = self._layout(value.layout)
        producer = producer_number(value.producer, tape)
        facts = TensorFacts(self._next_number, shape, dtype, device, bool(value.requires_grad), strides)
        self._next_number += 1
        facts.producer = producer if producer >= 0 else None
        value.facts = facts
        if type(value) is not Value:
            self._enrich(facts, value, tape)
        if not self.is_live:
            self._decoded.append(value)
        return facts

    def _facts_of_root(self, value: DeferredValue, root: DeferredValue, tape: TapeDecoder) -> TensorFacts:
        """The facts of a tensor that has not changed since an earlier value."""
        facts = value.facts = self.facts(root, tape)
        if not self.is_live:
            self._decoded.append(value)
        return facts

    def _enrich(self, facts: TensorFacts, value: Value, tape: TapeDecoder) -> None:
        """Add the class of the tensor, what `keep` returned for it, and its gradient."""
        if not isinstance(value, RichValue):
            facts.type = "Parameter"
            return
        facts.type = value.kind.__name__
        kept, grad = value.stat, value.grad
        if type(value) is DeferredValue:
            kept, grad = self._settled(kept), value.last_gradient()
        if isinstance(kept, Stats):
            facts.stats = kept
        else:
            facts.kept = kept
        if grad is not None:
            facts.grad = self.facts(grad, tape)

    def _settled(self, kept: Any) -> Any:
        """What was kept, once it has come over; None if the device has failed, or if NumPy cannot hold it."""
        try:
            return settle(kept)
        except Exception as error:
            if is_interrupt(error):
                raise
            if not self._has_told:
                self._has_told = True
                tell(f"what was kept of a tensor cannot be read, and is left out: {type(error).__name__}: {error}")
            return None

    def _layout(self, layout: Layout) -> PlainLayout:
        known = self._layouts.get(id(layout))
        if known is None:
            known = self._layouts[id(layout)] = (layout, plain_layout(*layout))
        return known[1]

    def release(self) -> None:
        """Forget the facts of all values: the next decoding, with more on the tapes, may number differently."""
        for value in self._decoded:
            value.facts = None
        self._decoded.clear()

    def forget(self) -> None:
        """Drop what is only needed to decode the same tape again."""
        self._layouts.clear()


def producer_number(at: int, tape: TapeDecoder) -> int:
    """The number of the call that produced a value; negative if there is none."""
    if at >= 0:
        return tape.number(at)
    if at <= EARLIER:
        return tape.decoder.number(EARLIER - at)
    return at


def plain_layout(
    shape: Iterable[Any] | None, dtype: Any, device: Any, strides: Iterable[Any] | None = None
) -> PlainLayout:
    """A layout as plain data; strides are None for a contiguous tensor."""
    plain_strides = sizes(strides) if strides is not None else None
    return (sizes(shape or ()), short_dtype(dtype), str(device), plain_strides)


def sizes(items: Iterable[Any]) -> tuple[int | str, ...]:
    """Sizes or strides as ints, symbolic ones as text."""
    return tuple([item if type(item) is int else str(item) for item in items])
