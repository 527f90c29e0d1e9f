"""The tape: one flat list for each thread, to which its probe appends a record for each call.

A record is FIXED slots, then the arguments, then the keyword arguments (names and values in turn), then the stack
((code, instruction) pairs, innermost first). The offset of a record is the identity of the call. Everything that can
wait is decoded later (decode.py). A flat list is the cheapest thing that Python can append to, so a record is not an
object.

Some records are SHORT: the change of a variable (a VariableEntry, the value) and, where variables are followed, that a
call was left or entered again (LEFT or ENTERED, its offset), because a change does not say in which call it was made.

Only this file computes with slots. The handlers of the hot path are the exception: ops.py, modules.py and the checks
of guard use the names of slots in line, because a call for each field would cost more than the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from insitu.capture.torch_internals import STOP_RECOMPUTATION
from insitu.capture.variables.follow.rewrite import ReportPoint
from insitu.trace.event import Change, MarkKind, Phase

CALLEE = 0  # what was called: a callee (calls.py, names.py, compiled.py) or a MarkEntry
RESULT = 1  # what the call returned, RUNNING while it has not, a Raised if it never will
PARENT = 2  # the offset of the call it was made in, or OUTERMOST
START = 3
END = 4
PHASE = 5  # FORWARD; BACKWARD if autograd's engine ran it; RECOMPUTE if forward code ran in the engine; COMPILED
NODES = (
    6  # the autograd nodes that the call made (see `node_range`); of an operator in the engine, the node that ran it
)
ARGS = 7  # how many slots of arguments follow
KWARGS = 8  # how many slots of keyword arguments follow
FRAMES = 9  # how many slots of the stack follow; INHERITED: none, the stack is that of the parent
FIXED = 10
SHORT = 2

FORWARD, BACKWARD, RECOMPUTE, COMPILED = 0, 1, 2, 3  # COMPILED: the forward pass of a compiled region
PHASES: tuple[Phase, ...] = ("forward", "backward", "recompute", "forward")

OUTERMOST = -1
INHERITED = -1
# Autograd numbers its nodes in each thread: the number of the first that a function made, and how many, in one int.
NODE_COUNT = 1 << 48
# The kinds of calls in which variables may change.
CONTAINING = frozenset({"module", "python"})


class _Running:
    """The result of a call that has not returned."""

    __slots__ = ()


RUNNING = _Running()


class Raised:
    """The result of a call that an exception ended; `type` is None where torch itself stops a recomputation early."""

    __slots__ = ("message", "type")

    def __init__(self, error: BaseException) -> None:
        kind = type(error)
        self.type = kind.__name__ if (kind.__module__, kind.__name__) != STOP_RECOMPUTATION else None
        first = next(iter(arguments_of(error)), None)
        self.message = first if type(first) is str else None  # no text is made here, and the error is not kept


def arguments_of(error: BaseException) -> tuple[Any, ...]:
    """The arguments that an exception was created with, whatever its class understands by `args`."""
    found = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    if type(found) is tuple:
        return found
    return ()


class MarkEntry:
    """A mark, in the slot of the callee; that of a step may have the number of the step."""

    __slots__ = ("kind", "mark", "number", "text")

    def __init__(self, mark: MarkKind, text: str, number: int | None = None) -> None:
        self.kind = "mark"
        self.mark = mark
        self.text = text
        self.number = number


class VariableEntry:
    """The change of a variable; `changes` is None for plain numbers, whose changes are found when decoding."""

    __slots__ = ("changes", "name", "point")

    def __init__(self, point: ReportPoint, name: str, changes: tuple[Change, ...] | None) -> None:
        self.point = point
        self.name = name
        self.changes = changes


class _Way:
    """Says that a call is left, or entered again."""

    __slots__ = ()


LEFT, ENTERED = _Way(), _Way()


class Seam(NamedTuple):
    """Where a part of a tape was taken off: when its last record began, and which watched calls ran then."""

    time: float = 0.0
    running: tuple[int, ...] = ()


# Where a record is: when it began, its offset and, for the change of a variable, the call it was made in. It is a plain
# tuple because there is one for each event that is decoded.
Record = tuple[float, int, int | None]


def new_record(callee: Any, parent: int, *, phase: int = FORWARD, args: int = 0, kwargs: int = 0) -> list[Any]:
    """The fixed slots of a call that begins; the handlers of the hot path write the same list as a literal."""
    return [callee, RUNNING, parent, 0.0, 0.0, phase, 0, args, kwargs, 0]


def node_range(nodes: int) -> range:
    """The numbers of the autograd nodes that a call has made, from its slot NODES.

    >>> node_range(5 + 2 * NODE_COUNT), node_range(17)
    (range(5, 7), range(17, 17))
    """
    count, first = divmod(nodes, NODE_COUNT)
    return range(first, first + count)


class Tape(list[Any]):
    """The records of one thread.

    `thread` is the number of the thread, `level` the level of recording, `end` where recording ended: code that still
    runs may go on writing. Methods take the offset of a record.
    """

    __slots__ = ("end", "level", "thread")

    def __init__(self, slots: list[Any] | tuple[()] = (), *, thread: int = 0, level: str = "functions") -> None:
        super().__init__(slots)
        self.thread, self.level = thread, level
        self.end: int | None = None

    def part(self, end: int | None = None) -> Tape:
        """A copy of the records before an offset, to which nobody writes."""
        return Tape(self[:end], thread=self.thread, level=self.level)

    def callee(self, at: int) -> Any:
        """What was called."""
        return self[at + CALLEE]

    def result(self, at: int) -> Any:
        """What the call returned, as recorded."""
        return self[at + RESULT]

    def is_running(self, at: int) -> bool:
        """Whether the call has not returned."""
        return self[at + RESULT] is RUNNING

    def parent(self, at: int) -> int:
        """The call it was made in, or OUTERMOST."""
        return self[at + PARENT]  # type: ignore[no-any-return]

    def start(self, at: int) -> float:
        """When it began."""
        return self[at + START]  # type: ignore[no-any-return]

    def phase(self, at: int) -> int:
        """FORWARD, BACKWARD, RECOMPUTE or COMPILED."""
        return self[at + PHASE]  # type: ignore[no-any-return]

    def nodes(self, at: int) -> range:
        """The numbers of the autograd nodes that the call has made."""
        return node_range(self[at + NODES])

    def node(self, at: int) -> int:
        """The number of the autograd node that ran an operator of a backward pass."""
        return self[at + NODES]  # type: ignore[no-any-return]

    def change(self, at: int) -> tuple[VariableEntry, Any]:
        """The change of a variable, and its value, at the offset of a short record."""
        return self[at], self[at + 1]

    def finish(self, at: int, time: float, result: Any) -> None:
        """The call has ended at a time, with a result as recorded or a Raised."""
        self[at + END], self[at + RESULT] = time, result

    def record(self, at: int) -> tuple[Any, ...]:
        """The slots from the callee to the nodes, the arguments, the names and values of the keyword arguments in turn,
        and the stack, which is None if it is that of the parent. All at once, because each event is decoded from it."""
        callee, result, parent, start, end, phase, nodes, args, kwargs, frames = self[at : at + FIXED]
        first = at + FIXED
        last = first + args
        stack = last + kwargs
        pairs = self[stack : stack + frames] if frames != INHERITED else None
        return callee, result, parent, start, end, phase, nodes, self[first:last], self[last:stack], pairs

    def args(self, at: int) -> list[Any]:
        """The arguments, as recorded."""
        first = at + FIXED
        return self[first : first + self[at + ARGS]]

    def kwargs(self, at: int) -> dict[str, Any]:
        """The keyword arguments, as recorded."""
        flat = self.record(at)[-2]
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def inputs(self, at: int) -> list[Any]:
        """The arguments, then the names and values of the keyword arguments in turn, as recorded."""
        first = at + FIXED
        return self[first : first + self[at + ARGS] + self[at + KWARGS]]

    def frames(self, at: int) -> list[Any]:
        """The stack between a call and its parent: code objects and instructions in turn, the innermost first."""
        return self.record(at)[-1] or []

    def end_of(self, at: int) -> int:
        """The offset behind the record of a call."""
        args, kwargs, frames = self[at + ARGS : at + FIXED]
        stack: int = max(frames, 0)  # INHERITED is negative
        return at + FIXED + int(args) + int(kwargs) + stack

    def ancestors(self, at: int) -> Iterator[int]:
        """A call, the one it was made in, and so on."""
        while at != OUTERMOST:
            yield at
            at = self[at + PARENT]

    def records(
        self, end: int | None = None, *, seams: dict[int, Seam] | None = None, running: list[int] | None = None
    ) -> Iterator[Record]:
        """Every record. The change of a variable has no time of its own: it gets that of the record before.

        `running` is filled with the watched calls that run, which matters only where variables are followed. `seams`
        says which calls ran at places where a part of the tape was taken off.
        """
        at, end, time = 0, len(self) if end is None else end, 0.0
        running, seams = running if running is not None else [], seams or {}
        while at + SHORT <= end:
            if at in seams:
                time, running[:] = seams[at]
            entry = self[at]
            if type(entry) is VariableEntry:
                yield time, at, running[-1] if running else OUTERMOST
                at += SHORT
            elif entry is LEFT or entry is ENTERED:
                _leave_or_enter(entry, self[at + 1], running)
                at += SHORT
            else:
                args, kwargs, frames = self[at + ARGS : at + FIXED]  # `end_of` in line, for each event that is decoded
                following = at + FIXED + args + kwargs + (frames if frames > 0 else 0)
                if following > end:  # another thread is writing it
                    return
                time = self[at + START]
                yield time, at, None
                if entry.kind in CONTAINING:
                    self._begin(at, running)
                at = following

    def _begin(self, at: int, running: list[int]) -> None:
        """A call begins in which variables may change; those that are not around it have ended."""
        around = self[at + PARENT]
        while around != OUTERMOST and self[around].kind not in CONTAINING:
            around = self[around + PARENT]
        while running and running[-1] != around:
            running.pop()
        running.append(at)

    def calls(self, end: int | None = None) -> Iterator[int]:
        """Every call and mark, in the order they began."""
        return (at for _, at, change_in in self.records(end) if change_in is None)

    def end_of_running(self) -> int:
        """Where the last call that has not returned, and may be left for a while, ends; 0 if all have returned."""
        last = max((at for at in self.calls() if self.is_running(at)), default=None)
        if last is not None:
            return self.end_of(last)
        return 0

    def maker(self, node: int, end: int | None = None) -> int | None:
        """The innermost call that made the autograd node with a number; None if no call on the tape did."""
        found = (at for at in self.calls(end) if node in self.nodes(at))
        return max(found, default=None)  # inner calls come after outer ones


def _leave_or_enter(way: _Way, call: int, running: list[int]) -> None:
    """A watched call goes on, or is left for a while."""
    if way is ENTERED:
        running.append(call)
    elif call in running:
        del running[running.index(call) :]
