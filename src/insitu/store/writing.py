"""Writing to descriptors: all of it or an error, and a thread that makes the system write it to the disk."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Any

_MOST = 512  # buffers in one call; Linux takes 1024
_SMALL = 2**14  # buffers that are smaller, on average, are copied together: a vector of many costs more than that


def write_all(file: int, buffers: Sequence[Any], size: int) -> None:
    """Append the buffers, of `size` bytes in all, to a file."""
    if size <= len(buffers) * _SMALL:
        buffers = (b"".join(buffers),)
    for start in range(0, len(buffers), _MOST):
        _write_some(buffers[start : start + _MOST], lambda left: os.writev(file, left))


def write_at(file: int, buffers: Sequence[Any], position: int) -> int:
    """Write the buffers to a place in a file, and give the place after them."""

    def write(left: Sequence[Any]) -> int:
        nonlocal position
        written = os.pwritev(file, left, position)
        position += written
        return written

    for start in range(0, len(buffers), _MOST):
        _write_some(buffers[start : start + _MOST], write)
    return position


def _write_some(buffers: Sequence[Any], write: Callable[[Sequence[Any]], int]) -> None:
    written = write(buffers)
    left: list[Any] = [view for buffer in buffers if (view := memoryview(buffer)).nbytes]
    while True:
        while left and written >= left[0].nbytes:
            written -= left.pop(0).nbytes
        if not left:
            return
        left[0] = left[0].cast("B")[written:]
        written = write(left)


class Beat:
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
