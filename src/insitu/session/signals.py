"""Ctrl-C and other signals that come while a session begins or ends wait until it has, or is undone; the end of the
process waits until a recording has ended."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from insitu.errors import is_interrupt

_NAMES = ["SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF"]
SIGNALS = [number for name in _NAMES if (number := getattr(signal, name, None)) is not None]
Found = TypeVar("Found")
Handlers = list[tuple[int, Callable[..., Any]]]


class _Exits(threading.local):
    """The latest `__exit__` methods that were looked up in a thread."""

    def __init__(self) -> None:
        self.latest: deque[weakref.ref[partial[None]]] = deque(maxlen=8)


_exits = _Exits()
Dropped = weakref.ref[Any] | None


class Exit:
    """`__exit__` of a class whose work is undone even if `__exit__` never runs.

    Python looks for signals at the first instruction of `__exit__`, before any line of it can run. When a handler
    raises there, `__exit__` has done nothing. But the `with` statement lets go of the method that it has looked up, and
    that is noticed: `undone_with` says what is to be done then.

    >>> class Session:
    ...     def __enter__(self):
    ...         self.dropped = undone_with(self, lambda: print("undone"))
    ...     __exit__ = Exit(lambda self, *error: 1 / 0)
    >>> try:
    ...     with Session():
    ...         print("inside")
    ... except ZeroDivisionError:
    ...     print("raised")
    inside
    undone
    raised
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __get__(self, subject: Any, owner: type | None = None) -> Callable[..., None]:
        if subject is None:
            return self._function
        method = partial(self._function, subject)
        _exits.latest.append(weakref.ref(method))
        return method


def undone_with(subject: object, undo: Callable[[], None]) -> Dropped:
    """If a `with` statement is entering this object, call `undo` when the statement lets go of it.

    Keep what this returns until `__exit__` has done its work, and no longer. Without the statement, it is None.
    """
    for found in reversed(_exits.latest):
        method = found()
        if method is not None and method.args[0] is subject:
            return weakref.ref(method, lambda _: undo())
    return None


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
        self._dropped: Dropped = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # only that one runs handlers
            return
        self._dropped = undone_with(self, self._leave)
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

    def _leave(self, *raised: object) -> None:
        put_back(self._handlers)
        self._dropped = None
        handlers, self._handlers = self._handlers, []
        came, self._came = self._came, {}
        for_each([partial(handler, number, came[number]) for number, handler in handlers if number in came])

    __exit__ = Exit(_leave)


def put_back(handlers: Handlers) -> None:
    """Give signals their handlers again."""
    for_each([partial(signal.signal, number, lasting(handler)) for number, handler in handlers])


def lasting(handler: Callable[..., Any]) -> Any:
    """A handler; the default one instead of one that was forgotten meanwhile."""
    return signal.SIG_DFL if isinstance(handler, Termination) and handler.is_over else handler


def for_each(works: list[Callable[[], Any]]) -> None:
    """Do all of these, even if the first raises: a signal that was waiting comes at once."""
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
    """What ends something, done as a whole, even where an interrupt comes at the very beginning of it.

    One that comes later, again and again, makes `end` be called once more: it must do what is left of its work.
    """
    done: list[Found] = []
    try:
        with Undisturbed():
            done.append(end())
    except BaseException as error:
        if not done and is_interrupt(error):
            with Undisturbed():
                end()
        raise
    return done[0]


class Termination:
    """Does something when the system asks the process to end, where nobody else does; then the process ends.

    `defer` is given what ends the process, and says whether it will call that later, because it must not run now.
    """

    def __init__(self, work: Callable[[], None], defer: Callable[[Callable[[], None]], bool]) -> None:
        self._work, self._defer = work, defer
        self._is_asked = False
        self.is_over = False
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True
        if not self._defer(self._end):
            self._end()

    def _end(self) -> None:
        self._work()
        self.end_if_asked()

    def end_if_asked(self) -> None:
        """End the process, if that was asked for."""
        if self._is_asked:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def forget(self) -> None:
        """Do nothing any more."""
        self.is_over = True
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
