"""The garbage collector while anything is recorded."""

from __future__ import annotations

import gc
import threading

from insitu.operating_system import at_fork


class Patience:
    """Makes the garbage collector wait longer while anything is traced.

    With the default thresholds, the collector would look at all of a growing tape again and again. The thresholds are
    put back when the last session ends, unless somebody else has changed them meanwhile.
    """

    PATIENT = (50_000, 50, 100)

    def __init__(self) -> None:
        self.sessions = 0
        self.before = gc.get_threshold()
        self._lock = threading.Lock()

    def abandon(self) -> None:
        """This process is the child of a fork, and whoever held the lock is not here."""
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A session starts."""
        with self._lock:
            self.sessions += 1
            if self.sessions == 1:
                self.before = gc.get_threshold()
                if 0 < self.before[0] < self.PATIENT[0]:
                    gc.set_threshold(*self.PATIENT)

    def end(self) -> None:
        """A session has ended."""
        with self._lock:
            self.sessions -= 1
            if self.sessions == 0 and gc.get_threshold() == self.PATIENT:
                gc.set_threshold(*self.before)


patience = Patience()
at_fork(after_in_child=patience.abandon)
