"""A segment: the records of one thread that are decoded together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from insitu.capture.calls import PythonNote
from insitu.capture.ids import Ids, Seam
from insitu.capture.names import ModuleNote
from insitu.capture.tape import (
    ARGS,
    ENTERED,
    FIXED,
    FRAMES,
    KWARGS,
    LEFT,
    OUTERMOST,
    PARENT,
    SHORT,
    START,
    Tape,
    VariableNote,
)

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

# When it began, its offset and, for the change of a variable, the call it lies in.
Record = tuple[float, int, int | None]
CONTAINING = (PythonNote, ModuleNote)


def end_of(tape: Tape, at: int) -> int:
    """Where the record of a call ends."""
    return int(at + FIXED + tape[at + ARGS] + tape[at + KWARGS] + max(tape[at + FRAMES], 0))


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
    running = running if running is not None else []
    while at + SHORT <= end:
        if seams and at in seams:
            time, running[:] = seams[at]
        note = tape[at]
        if type(note) is VariableNote:
            yield time, at, running[-1] if running else OUTERMOST
            at += SHORT
            continue
        if note is LEFT or note is ENTERED:
            if note is ENTERED:
                running.append(tape[at + 1])
            elif tape[at + 1] in running:
                del running[running.index(tape[at + 1]) :]
            at += SHORT
            continue
        following = end_of(tape, at)
        if following > end:  # another thread is writing it
            return
        time = tape[at + START]
        yield time, at, None
        if isinstance(note, CONTAINING):
            around = tape[at + PARENT]
            while around != OUTERMOST and not isinstance(tape[around], CONTAINING):
                around = tape[around + PARENT]
            while running and running[-1] != around:
                running.pop()
            running.append(at)
        at = following


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
