"""The lifecycle of every `with` block of insitu: enter, roll back, leave, undo, report.

`watch`, `record`, `record_run` and `guard` each have a `Session` that opens an `Entry`, and the entry knows what it has
started. This file alone decides in which order an entry ends, and that Ctrl-C at any moment undoes all of it.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from threading import get_ident
from types import FrameType, TracebackType
from typing import Generic, TypeVar

from insitu.errors import InsituError
from insitu.session.signals import ExitMethod, ExitWatch, run_to_completion, start_or_undo, watch_exit
from insitu.tracebacks import without_own_frames


class Entry:
    """One entry of a session: what it has started, and how that ends.

    When the block ends, the session calls `hand_over`, `stop`, `report` and `release`, in this order. `hand_over` may
    be interrupted. `stop` runs to completion: it is called once more if a signal arrives inside it, and then does the
    rest of its work. `report` runs after everything is undone, and may raise. `release` always runs.
    """

    def __init__(self) -> None:
        self.undo = ExitStack()
        self.exit_watch: ExitWatch = None

    def hand_over(self) -> None:
        """Give the user's own code what is left for it; nothing keeps the user from interrupting that."""

    def stop(self, error: BaseException | None) -> None:
        """Undo everything; `error` is the exception that ends the block."""
        self.undo.close()

    def report(self, error: BaseException | None) -> None:
        """Tell the user what is to be told at the end."""

    def report_failure(self) -> None:
        """Tell the user what is left behind, because an exception ended `hand_over` or `report`."""

    def release(self) -> None:
        """Let go of what is not needed after the end."""

    def roll_back(self) -> None:
        """Undo everything: Ctrl-C arrived during `__enter__`."""
        self.stop(None)


EntryType = TypeVar("EntryType", bound=Entry)


class Session(Generic[EntryType]):
    """A `with` block. It can be entered again, even inside itself; each entry is independent of the others."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, EntryType]] = []

    def open(self, frame: FrameType | None) -> EntryType:
        """Start everything for one entry, in the frame that enters the block."""
        raise NotImplementedError

    def enter(self, frame: FrameType | None, holder: object = None) -> EntryType:
        """Open an entry; `holder` is the object whose `__exit__` ends it, if that is not the session."""
        return start_or_undo(lambda: self._add_entry(frame, holder or self), self._roll_back)

    def _add_entry(self, frame: FrameType | None, holder: object) -> EntryType:
        entry = self.open(frame)
        self._entries.append((get_ident(), entry))
        entry.exit_watch = watch_exit(holder, partial(self._cut_short, entry))
        return entry

    def _roll_back(self, entry: EntryType) -> None:
        try:
            entry.roll_back()
        finally:
            self._remove(entry)

    def _cut_short(self, entry: EntryType) -> None:
        """End an entry whose `__exit__` never ran: a signal handler raised at its first instruction."""
        try:
            run_to_completion(lambda: self._end(entry, None))
            entry.report_failure()
        finally:
            entry.release()

    def leave(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the entry that was opened last, and report."""
        entry = self._latest_entry()
        try:
            try:
                entry.hand_over()
            finally:
                run_to_completion(lambda: self._end(entry, error))
            without_own_frames(traceback)
            entry.report(error)
        except BaseException:
            entry.report_failure()
            raise
        finally:
            entry.release()

    __exit__ = ExitMethod(leave)

    def _end(self, entry: EntryType, error: BaseException | None) -> None:
        entry.stop(error)
        self._remove(entry)

    def _remove(self, entry: EntryType) -> None:
        entry.exit_watch = None
        self._entries = [(ident, other) for ident, other in self._entries if other is not entry]

    def _latest_entry(self) -> EntryType:
        """The latest entry of this thread; without one, the latest of any: another thread may leave the block."""
        if not self._entries:
            raise InsituError("this session has not begun, or has ended already: `with session:` begins and ends it")
        own = [entry for ident, entry in self._entries if ident == get_ident()]
        if own:
            return own[-1]
        return self._entries[-1][1]
