"""The entries of a traceback: which frames are shown, and where an exception was raised last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import get_ident
from types import CodeType, FrameType, TracebackType
from typing import TypeGuard

from insitu.capture.sites import is_hidden
from insitu.tracebacks import is_own

SUSPENDED = 0x20 | 0x80 | 0x200  # flags of generators and coroutines: their frames forget their callers


@dataclass(slots=True, frozen=True)
class RaisePoint:
    """A thread, and the instruction in it that raised an exception; no code while only frames of this tool know it."""

    thread: int
    code: CodeType | None = None
    lasti: int = -1


def entries(traceback: TracebackType | None, until: TracebackType | None = None) -> Iterator[TracebackType]:
    """The entries of a traceback up to one of them, the outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next if traceback is not until else None


def is_shown(traceback: TracebackType | None) -> bool:
    """Whether one of the frames is the user's."""
    return any(not is_hidden(entry.tb_frame.f_code.co_filename) for entry in entries(traceback))


def last_raised(traceback: TracebackType | None) -> TracebackType | None:
    """The entry that raised an exception last: what an earlier raise of the same object left comes behind it."""
    while _leads_on(traceback):
        traceback = traceback.tb_next
    return traceback


def raise_point(traceback: TracebackType | None, last: TracebackType | None) -> RaisePoint:
    """The instruction that raised an exception."""
    user = [entry for entry in entries(traceback, last) if not is_own(entry)]
    if not user:
        return RaisePoint(get_ident())
    return RaisePoint(get_ident(), user[-1].tb_frame.f_code, user[-1].tb_lasti)


def has_only_propagated(traceback: TracebackType | None, frame: int) -> bool:
    """Whether an exception that had come to a frame, which is known by its id, has only propagated since."""
    while _leads_on(traceback) and id(traceback.tb_frame) != frame:
        traceback = traceback.tb_next
    return traceback is not None and id(traceback.tb_frame) == frame


def _leads_on(traceback: TracebackType | None) -> TypeGuard[TracebackType]:
    """Whether there is an entry whose frame has called that of the next one."""
    if traceback is None or traceback.tb_next is None:
        return False
    return _leads_to(traceback.tb_frame, traceback.tb_next.tb_frame)


def _leads_to(frame: FrameType, inner: FrameType) -> bool:
    """Whether one frame has called another, or may have: a coroutine that has ended does not know its caller."""
    here = inner
    while here is not frame:
        if here.f_back is None:
            return bool(here.f_code.co_flags & SUSPENDED)
        here = here.f_back
    return True
