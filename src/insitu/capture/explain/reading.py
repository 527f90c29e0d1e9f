"""Reads single calls from a tape: their arguments, their sites, the calls around them. It does not decode all calls."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any, Self

from torch import Tensor

from insitu.capture.decode import Decoder
from insitu.capture.names import ModuleCallee
from insitu.capture.segment import Ids
from insitu.capture.sites import Base, is_hidden
from insitu.capture.tape import BACKWARD, OUTERMOST, Raised, Tape
from insitu.capture.tape_decoder import TapeDecoder
from insitu.capture.tensors import EARLIER, Value
from insitu.trace.event import Call, Fields
from insitu.trace.explain.failure_history import CalleeFacts, FailureHistory


class Reading(FailureHistory):
    """A tape, read to explain an error; a call is known by its offset, a tensor by its `Value`.

    `cleared` says from where on the tape of a live session was cleared last, and how much of it so far: the calls
    before that are still running. The facts of values are made when they are needed, and forgotten when the block
    ends: a later decoding numbers them differently. `with_nestings` says whether the sites of calls know the loops
    around them.
    """

    def __init__(self, tape: Tape, *, cleared: tuple[int, int] = (0, 0), with_nestings: bool = False) -> None:
        self.tape = tape
        self._begin, self._cleared = cleared
        self._decoder = Decoder(Base(None), origin=0.0, rank=0, with_nestings=with_nestings)
        self._tape = TapeDecoder(self._decoder, tape, Ids(self._cleared), connects=False)
        self._callees: dict[int, CalleeFacts] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._decoder.values.release()

    def call(self, at: int) -> Call:
        """The event of a call."""
        event = self._tape.event(at)
        assert isinstance(event, Call)
        return event

    def plain(self, item: Any) -> Any:
        """An argument or a result as plain data."""
        return self._tape.plain(item)

    def callee(self, at: int) -> Any:
        """The callee, as the tape has it."""
        return self.tape.callee(at)

    def callee_facts(self, at: int) -> CalleeFacts:
        """The callee, as plain data."""
        callee = self.tape.callee(at)
        found = self._callees.get(id(callee))
        if found is None:
            found = self._callees[id(callee)] = _facts(callee)
        return found

    def result(self, at: int) -> Any:
        """The result, as the tape has it."""
        return self.tape.result(at)

    def has_raised(self, at: int) -> bool:
        """Whether an exception ended the call."""
        return isinstance(self.tape.result(at), Raised)

    def args(self, at: int) -> list[Any]:
        """The arguments, as the tape has them."""
        return self.tape.args(at)

    def kwargs(self, at: int) -> dict[str, Any]:
        """The keyword arguments, as the tape has them."""
        return self.tape.kwargs(at)

    def parent(self, at: int) -> int | None:
        """The call in which a call was made."""
        parent = self.tape.parent(at)
        if parent != OUTERMOST:
            return parent
        return None

    def before(self, end: int) -> Iterator[int]:
        """Every call that began before an offset, in order."""
        return (at for at in self.tape.calls(end) if self.callee(at).kind != "mark")

    def after(self, at: int) -> int:
        """The offset behind the record of a call."""
        return self.tape.end_of(at)

    def is_tensor(self, item: Any) -> bool:
        """Whether an item is the value of a tensor or an array."""
        return isinstance(item, Value)

    def is_array(self, tensor: Value) -> bool:
        """Whether a tensor is a NumPy array."""
        return not issubclass(tensor.kind, Tensor)

    def producer(self, tensor: Value) -> int | None:
        """The call that produced a value; None if the value was there before, or its call is forgotten."""
        at = tensor.producer
        if at <= EARLIER:
            return self._remaining(EARLIER - at)
        if at < 0 and tensor.facts is not None and tensor.facts.producer is not None:
            return self._remaining(tensor.facts.producer)
        if 0 <= at < len(self.tape):
            return at
        return None

    def _remaining(self, number: int) -> int | None:
        """The offset of a call by its number, if the call is still on the tape after a part of it was cleared."""
        at = number - self._cleared
        if self._begin <= at < len(self.tape):
            return at
        return None

    def frame(self, at: int) -> tuple[CodeType, int] | None:
        """The innermost frame that is shown among those between a call and the one it was made in."""
        return next(self._shown_frames(at), None)

    def frames(self, at: int) -> list[tuple[CodeType, int]]:
        """Every frame that is shown among those between a call and the one it was made in, the innermost first."""
        return list(self._shown_frames(at))

    def _shown_frames(self, at: int) -> Iterator[tuple[CodeType, int]]:
        flat = self.tape.frames(at)
        for code, lasti in zip(flat[::2], flat[1::2], strict=True):
            if code is not None and not is_hidden(code.co_filename):
                yield code, lasti

    def backward_node(self, at: int) -> int | None:
        """The number of the autograd node that an operator of the backward pass belongs to."""
        is_backward = self.tape.phase(at) == BACKWARD and self.callee(at).kind == "aten"
        if is_backward:
            return self.tape.node(at)
        return None

    def maker(self, node: int, end: int) -> int | None:
        """The innermost call before an offset that made a node of the graph, which is known by its number."""
        return self.tape.maker(node, end)

    def modules(self, at: int) -> list[ModuleCallee]:
        """The modules around a call, the outermost first."""
        callees = [self.callee(each) for each in self.ancestors(at)]
        return [callee for callee in reversed(callees) if isinstance(callee, ModuleCallee)]


def _facts(callee: Any) -> CalleeFacts:
    if isinstance(callee, ModuleCallee):
        module_type = callee.facts.type
        return CalleeFacts("module", "", callee.path or module_type, module_type, callee.in_place)
    in_place, runs_backward = getattr(callee, "in_place", False), getattr(callee, "runs_backward", False)
    return CalleeFacts(callee.kind, callee.name, callee.name, "", in_place, runs_backward)


def values(item: Any) -> Iterator[Value]:
    """Every tensor in an argument or a result, in order."""
    if isinstance(item, Value):
        yield item
    elif isinstance(item, (tuple, list)):
        for part in item:
            yield from values(part)
    elif isinstance(item, dict):
        for part in item.values():
            yield from values(part)
    elif isinstance(item, Fields):
        yield from values(item.items)
