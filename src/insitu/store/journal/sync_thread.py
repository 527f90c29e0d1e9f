"""A thread that makes the system write a journal to the disk about once a second."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import Event, Thread


class SyncThread:
    """Calls a method of an object at regular intervals, until it is stopped or the object is deleted."""

    def __init__(self, method: Callable[[], None], seconds: float) -> None:
        self._method = weakref.WeakMethod(method)
        self._seconds = seconds
        self._stop = Event()
        self._thread = Thread(target=self._run, name="insitu-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            method = self._method()
            if method is None:
                return
            method()
            del method

    @property
    def is_running(self) -> bool:
        """Whether `stop` was not called yet."""
        return not self._stop.is_set()

    def stop(self) -> None:
        """Stop the thread; no call begins after this."""
        self._stop.set()
        if self._thread.is_alive():  # not in a child process, which has no such thread
            self._thread.join()
