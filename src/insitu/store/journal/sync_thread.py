"""A thread that makes the system write a journal to the disk about once a second."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import Event, Thread


class SyncThread:
    """Calls a method of an object now and then from a thread, until it is stopped or the object is gone."""

    def __init__(self, method: Callable[[], None], seconds: float) -> None:
        self._method = weakref.WeakMethod(method)
        self._seconds = seconds
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="insitu-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            method = self._method()
            if method is None:
                return
            method()
            del method

    @property
    def running(self) -> bool:
        """Whether it was not stopped."""
        return not self._stopped.is_set()

    def stop(self) -> None:
        """No call begins after this."""
        self._stopped.set()
        if self._thread.is_alive():  # not in a child process, where there never was one
            self._thread.join()
