"""Reading on a tape: the place of a call, its ancestors, who made a value. To explain one call, not to decode all."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

from insitu.capture.decode import Decoder, TapeDecoder
from insitu.capture.explain.expressions import Expression, expression_at, line_at, pairs, segment
from insitu.capture.ids import EARLIER, Ids
from insitu.capture.names import ModuleCallee
from insitu.capture.segment import records
from insitu.capture.sites import Base, is_hidden
from insitu.capture.tape import ARGS, CALLEE, FIXED, FRAMES, KWARGS, NODE_COUNT, NODES, OUTERMOST, PARENT, RESULT, Tape
from insitu.capture.tensors import Value
from insitu.trace.event import Call, Fields
from insitu.trace.explanation import Place

if TYPE_CHECKING:
    pass


class Reading:
    """A tape as it is read to explain an error; offsets stand for calls.

    `cleared` is from where on the tape of a live session was cleared last, and how much of it so far: what lies before
    that are calls that run. Facts of values are made as they are needed, and forgotten when the reading is over: a
    later decoding numbers differently.
    """

    level = "functions"  # no operator is looked up by the call that it comes from

    def __init__(self, tape: Tape, *, thread: int = 0, cleared: tuple[int, int] = (0, 0)) -> None:
        self.tape, self.thread = tape, thread
        self._begin, self._cleared = cleared
        self._decoder = Decoder(Base(None), origin=0.0, rank=0)
        self._tape = TapeDecoder(self._decoder, self, Ids(self._cleared))

    def close(self) -> None:
        """Forget the facts that were made."""
        self._decoder.release()

    def call(self, at: int) -> Call:
        """The event of a call."""
        event = self._tape.event(at)
        assert isinstance(event, Call)
        return event

    def plain(self, item: Any) -> Any:
        """What was noted, as plain data."""
        return self._tape.plain(item)

    def callee(self, at: int) -> Any:
        """What was called."""
        return self.tape[at + CALLEE]

    def result(self, at: int) -> Any:
        """What it returned, as noted."""
        return self.tape[at + RESULT]

    def args(self, at: int) -> list[Any]:
        """The arguments, as noted."""
        return self.tape[at + FIXED : at + FIXED + self.tape[at + ARGS]]

    def kwargs(self, at: int) -> dict[str, Any]:
        """The keyword arguments, as noted."""
        first = at + FIXED + self.tape[at + ARGS]
        flat = self.tape[first : first + self.tape[at + KWARGS]]
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def made_nodes(self, at: int) -> bool:
        """Whether autograd has made nodes for it, which may have saved what went in."""
        return bool(self.tape[at + NODES] >= NODE_COUNT)

    def ancestors(self, at: int) -> Iterator[int]:
        """A call, the one it was made in, and so on."""
        while at != OUTERMOST:
            yield at
            at = self.tape[at + PARENT]

    def before(self, at: int) -> Iterator[int]:
        """Every call that began before another one, in order."""
        for _, other, parent in records(self.tape, at):
            if parent is None and self.callee(other).kind != "mark":
                yield other

    def producer(self, value: Value) -> int | None:
        """The call that made a value; None if it was there before, or is forgotten."""
        at = value.producer
        if at <= EARLIER:
            at = EARLIER - at - self._cleared  # a part of the tape was taken off since
            return at if self._begin <= at < len(self.tape) else None
        if at < 0 and value.facts is not None and value.facts.producer is not None:
            at = value.facts.producer - self._cleared  # the tape was cleared since
            return at if self._begin <= at < len(self.tape) else None
        return at if 0 <= at < len(self.tape) else None

    def frame(self, at: int) -> tuple[CodeType, int] | None:
        """The innermost frame that is shown among those between a call and the one it was made in."""
        first = at + FIXED + self.tape[at + ARGS] + self.tape[at + KWARGS]
        flat = self.tape[first : first + max(self.tape[at + FRAMES], 0)]
        for code, lasti in zip(flat[::2], flat[1::2], strict=True):
            if code is not None and not is_hidden(code.co_filename):
                return code, lasti
        return None

    def on_line(self, at: int) -> int | None:
        """The call that stands in the user's source: the given one or, for what torch calls, one that it is part of."""
        return next((each for each in self.ancestors(at) if self.frame(each) is not None), None)

    def expression(self, at: int) -> Expression | None:
        """The expression of a call in the user's source."""
        found = self.frame(at)
        return expression_at(*found) if found is not None else None

    def place(self, at: int) -> Place | None:
        """Where a call was made, with the text of the expression."""
        line = self.on_line(at)
        return self.place_of(*self.frame(line)) if line is not None else None  # type: ignore[misc]

    @staticmethod
    def place_of(code: CodeType, lasti: int) -> Place:
        """The place of an instruction."""
        expression = expression_at(code, lasti)
        text = expression.text if expression is not None else ""
        line = expression.position[0] if expression is not None else line_at(code, lasti)
        return Place(code.co_filename, line, code.co_name, text)

    def name_in(self, at: int, value: Value) -> str:
        """The expression of an argument in the source of a call."""
        line = self.on_line(at)
        expression = self.expression(line) if line is not None else None
        if expression is None or line is None:
            return ""
        at, callee = line, self.callee(line)
        name = "" if isinstance(callee, ModuleCallee) else callee.name
        found = pairs(expression.node, name, self.args(at), self.kwargs(at))
        return next((segment(expression.file, node) for item, node in found if item is value), "")

    def returning_none(self, place: Place, end: int) -> str:
        """The module or function that was called at a place and has returned None: `FeedForward.forward`."""
        found = ""
        for at in self.before(end):
            callee = self.callee(at)
            if self.result(at) is not None or callee.kind not in ("module", "python"):
                continue
            here = self.place(at)
            if here is not None and (here.file, here.line, here.text) == (place.file, place.line, place.text):
                found = f"{callee.facts.type}.forward" if isinstance(callee, ModuleCallee) else str(callee.name)
        return found

    def modules(self, at: int) -> list[ModuleCallee]:
        """The modules around a call, the outermost first."""
        callees = [self.callee(each) for each in self.ancestors(at)]
        return [callee for callee in reversed(callees) if isinstance(callee, ModuleCallee)]


def values(item: Any) -> Iterator[Value]:
    """Every tensor in what was noted, in order."""
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
