"""Ctrl-C and alarms that come while a session begins or ends wait until it has, or is undone; the end of the process
waits until a recording has ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, TypeVar

SIGNALS = [number for name in ("SIGINT", "SIGALRM") if (number := getattr(signal, name, None)) is not None]
Found = TypeVar("Found")
Handlers = list[tuple[int, Callable[..., Any]]]


class Undisturbed:
    """A `with` block in which signals wait; what their handlers raise is raised at its end.

    One that comes again while it waits is meant: from then on that signal goes straight to its handler.

    >>> before = signal.signal(signal.SIGINT, lambda number, frame: print("interrupted"))
    >>> with Undisturbed():
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("not yet")
    not yet
    interrupted
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    def __init__(self) -> None:
        self._handlers: Handlers = []
        self._came: dict[int, FrameType | None] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # only that one runs handlers
            return
        try:
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    signal.signal(number, self._wait)
        except BaseException:  # one came before it was told to wait
            put_back(self._handlers)
            raise

    def _wait(self, number: int, frame: FrameType | None) -> None:
        if number not in self._came:
            self._came[number] = frame
            return
        before, handler = self._came.pop(number), dict(self._handlers)[number]
        signal.signal(number, handler)
        for_each([partial(handler, number, before), partial(handler, number, frame)])

    def __exit__(self, *raised: object) -> None:
        put_back(self._handlers)
        came, self._came = self._came, {}
        for_each([partial(handler, number, came[number]) for number, handler in self._handlers if number in came])


def put_back(handlers: Handlers) -> None:
    """Give signals their handlers again."""
    for_each([partial(signal.signal, number, handler) for number, handler in handlers])


def for_each(works: list[Callable[[], Any]]) -> None:
    """Do all of these, also if the first raises: a signal that was waiting comes at once."""
    if works:
        try:
            works[0]()
        finally:
            for_each(works[1:])


def begun(begin: Callable[[], Found], undo: Callable[[Found], None]) -> Found:
    """What is begun as a whole; if an interrupt came meanwhile, it is undone again as a whole."""
    found: list[Found] = []
    try:
        with Undisturbed():
            found.append(begin())
    except BaseException:
        with Undisturbed():
            for each in found:
                undo(each)
        raise
    return found[0]


def ended(end: Callable[[], Found]) -> Found:
    """What ends something, done as a whole, also where an interrupt comes at the very beginning of it."""
    begun: list[bool] = []
    try:
        with Undisturbed():
            begun.append(True)
            return end()
    except BaseException:
        if not begun:
            with Undisturbed():
                end()
        raise


class Termination:
    """Does something when the system asks the process to end, where nobody else does; then it ends."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._work()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def forget(self) -> None:
        """Do nothing any more."""
        if signal.getsignal(signal.SIGTERM) is self:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


# A child that is forked while a handler in Python is set may lose the signal for ever, or wait for a lock with it. It
# is forked without, and SIGTERM ends it at once, as it would without a recording.
_set_aside: list[Termination] = []


def _set_handler_aside() -> None:
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, Termination) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _set_aside.append(handler)


def _put_handler_back() -> None:
    if _set_aside:
        signal.signal(signal.SIGTERM, _set_aside.pop())


def _forget_handler() -> None:
    _set_aside.clear()
    if isinstance(signal.getsignal(signal.SIGTERM), Termination):  # forked by another thread
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(before=_set_handler_aside, after_in_parent=_put_handler_back, after_in_child=_forget_handler)
