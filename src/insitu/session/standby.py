"""Recorders that stand by: they record watched functions outside of all sessions, without a start and an end each time.

Each thread has one recorder for each place to print, shared by all functions that are watched there.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from insitu.capture.recorder import Recorder
from insitu.capture.variables.function_watch import own_probes
from insitu.session.dist import current_rank
from insitu.session.record import Keep, SessionPrinter

thread_numbers = itertools.count(1)


class StandbyRecorder:
    """A recorder of one thread that prints the calls of watched functions."""

    def __init__(self, printer: SessionPrinter, keep: Keep, thread: int) -> None:
        self.printer = printer
        recorder = Recorder(
            None, level="python", keep=keep, only=(), sinks=(printer,), rank=current_rank(), thread=thread
        )
        self.probe = recorder.stand_by()


class ThreadRecorders(threading.local):
    """The recorders that stand by in one thread, by the place where they print."""

    def __init__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self.number = 0 if is_main else next(thread_numbers)
        self.by_place: WeakValueDictionary[Hashable, StandbyRecorder] = WeakValueDictionary()


thread_recorders = ThreadRecorders()


class Standby:
    """What one `watch` needs to record functions outside of all sessions."""

    def __init__(self, place: Hashable, printer: Callable[[], SessionPrinter], keep: Keep) -> None:
        self._place = (place, id(keep))
        self._printer, self._keep = printer, keep
        self._own = threading.local()  # keeps the recorder of each thread alive as long as this `watch`

    def recorder(self) -> StandbyRecorder:
        """The recorder of this thread for the place; a new one if there is none."""
        own: StandbyRecorder | None = getattr(self._own, "recorder", None)
        if own is not None:
            return own
        recorders = thread_recorders.by_place
        own = recorders.get(self._place)
        if own is None:
            own = recorders[self._place] = StandbyRecorder(self._printer(), self._keep, thread_recorders.number)
        self._own.recorder = own
        return own

    def is_recording(self) -> bool:
        """Whether the recorder of this thread is inside a watched function."""
        return self.recorder().probe in own_probes.get(threading.get_ident(), ())

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record one call of a watched function."""
        recorder, ident = self.recorder(), threading.get_ident()
        outer = own_probes.get(ident, ())
        own_probes[ident] = (*outer, recorder.probe)
        try:
            yield
        finally:
            if outer:
                own_probes[ident] = outer
            else:
                own_probes.pop(ident, None)
            recorder.printer.flush()
