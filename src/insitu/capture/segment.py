"""A segment: the records of one thread that are decoded together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from insitu.capture.calls import PythonCallee
from insitu.capture.ids import Ids, Seam
from insitu.capture.names import ModuleCallee
from insitu.capture.tape import (
    ARGS,
    ENTERED,
    FIXED,
    LEFT,
    OUTERMOST,
    PARENT,
    SHORT,
    START,
    Tape,
    VariableEntry,
)

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

# When it began, its offset and, for the change of a variable, the call it lies in.
Record = tuple[float, int, int | None]
CONTAINING = (PythonCallee, ModuleCallee)


def end_of(tape: Tape, at: int) -> int:
    """Where the record of a call ends."""
    arguments, keywords, frames = tape[at + ARGS : at + FIXED]
    end: int = at + FIXED + arguments + keywords + (frames if frames > 0 else 0)
    return end


def records(
    tape: Tape,
    end: int | None = None,
    *,
    seams: dict[int, Seam] | None = None,
    running: list[int] | None = None,
) -> Iterator[Record]:
    """Every record of a tape. A change has no time of its own: it gets that of what came before.

    `running` is filled with the watched calls that run, as far as that is known, which matters only where variables
    are followed. `seams` says that of places where a part of the tape was taken off.
    """
    at, end, time = 0, len(tape) if end is None else end, 0.0
    running, seams = running if running is not None else [], seams or {}
    while at + SHORT <= end:
        if at in seams:
            time, running[:] = seams[at]
        entry = tape[at]
        if type(entry) is VariableEntry:
            yield time, at, running[-1] if running else OUTERMOST
            at += SHORT
        elif entry is LEFT or entry is ENTERED:
            _leave_or_enter(entry, tape[at + 1], running)
            at += SHORT
        else:
            following = end_of(tape, at)
            if following > end:  # another thread is writing it
                return
            time = tape[at + START]
            yield time, at, None
            if isinstance(entry, CONTAINING):
                _begin(tape, at, running)
            at = following


def _leave_or_enter(way: Any, call: int, running: list[int]) -> None:
    """A watched call goes on, or is left for a while."""
    if way is ENTERED:
        running.append(call)
    elif call in running:
        del running[running.index(call) :]


def _begin(tape: Tape, at: int, running: list[int]) -> None:
    """A call begins that may contain changes of variables; those that are not around it have ended."""
    around = tape[at + PARENT]
    while around != OUTERMOST and not isinstance(tape[around], CONTAINING):
        around = tape[around + PARENT]
    while running and running[-1] != around:
        running.pop()
    running.append(at)


class TapeOwner(Protocol):
    """What has a tape: a probe, a segment, somebody who reads one."""

    tape: Tape
    thread: int
    level: str


class Segment:
    """The records of a tape from an offset on. Those before it are calls that ran meanwhile: other records name them.

    Offsets are those of the tape when the segment was taken off it, and `ids` the ids at that time.
    """

    __slots__ = ("begin", "end", "ids", "level", "tape", "thread")

    def __init__(self, probe: Probe, tape: Tape, begin: int, end: int | None, ids: Ids) -> None:
        self.tape, self.begin, self.end, self.ids = tape, begin, end, ids
        self.thread, self.level = probe.thread, probe.level

    def records(self) -> Iterator[Record]:
        """Its own records, in order."""
        every = records(self.tape, self.end, seams=self.ids.seams)
        return (record for record in every if record[1] >= self.begin) if self.begin else every
