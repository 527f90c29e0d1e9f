"""Signals around sessions: Ctrl-C never leaves a session half started or half ended; SIGTERM waits for a recording."""

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
from insitu.operating_system import at_fork

_NAMES = ["SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF"]
SIGNALS = [number for name in _NAMES if (number := getattr(signal, name, None)) is not None]
Found = TypeVar("Found")
Handlers = list[tuple[int, Callable[..., Any]]]


class _Exits(threading.local):
    """The latest `__exit__` methods that were looked up in a thread."""

    def __init__(self) -> None:
        self.latest: deque[weakref.ref[partial[None]]] = deque(maxlen=8)


_exits = _Exits()
ExitWatch = weakref.ref[Any] | None


class ExitMethod:
    """`__exit__` of a class that is undone even if `__exit__` never runs.

    Python checks for signals at the first instruction of `__exit__`, before any line of it can run. If a handler raises
    there, `__exit__` has done nothing. But the `with` statement then drops its reference to the bound method, and a
    weak reference notices that: `watch_exit` registers what to do in this case.

    >>> class Session:
    ...     def __enter__(self):
    ...         self.exit_watch = watch_exit(self, lambda: print("undone"))
    ...     __exit__ = ExitMethod(lambda self, *error: 1 / 0)
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


def watch_exit(subject: object, undo: Callable[[], None]) -> ExitWatch:
    """Call `undo` when the `with` statement that is entering `subject` drops its `__exit__` method.

    The caller keeps the returned reference until `__exit__` has done its work, and no longer. The result is None if no
    `with` statement is entering the object.
    """
    for found in reversed(_exits.latest):
        method = found()
        if method is not None and method.args[0] is subject:
            return weakref.ref(method, lambda _: undo())
    return None


class SignalShield:
    """A `with` block that delays signals; their handlers run, and may raise, when the block ends.

    If the same signal arrives twice, the user insists: from then on it goes straight to its handler.

    >>> before = signal.signal(signal.SIGINT, lambda number, frame: print("interrupted"))
    >>> with SignalShield():
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("not yet")
    not yet
    interrupted
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    def __init__(self) -> None:
        self._handlers: Handlers = []
        self._pending: dict[int, FrameType | None] = {}
        self._exit_watch: ExitWatch = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # only the main thread runs signal handlers
            return
        self._exit_watch = watch_exit(self, self._leave)
        try:
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    signal.signal(number, self._wait)
        except BaseException:  # a signal arrived before its handler was replaced
            restore_handlers(self._handlers)
            raise

    def _wait(self, number: int, frame: FrameType | None) -> None:
        if number not in self._pending:
            self._pending[number] = frame
            return
        before, handler = self._pending.pop(number), dict(self._handlers)[number]
        signal.signal(number, handler)
        call_all([partial(handler, number, before), partial(handler, number, frame)])

    def handler(self, number: int) -> Any:
        """The handler that a signal has again when the block ends."""
        return dict(self._handlers)[number]

    def replace(self, number: int, handler: Callable[..., Any]) -> None:
        """Give a signal another handler when the block ends."""
        self._handlers = [(each, handler if each == number else old) for each, old in self._handlers]

    def _leave(self, *raised: object) -> None:
        restore_handlers(self._handlers)
        self._exit_watch = None
        handlers, self._handlers = self._handlers, []
        pending, self._pending = self._pending, {}
        call_all([partial(handler, number, pending[number]) for number, handler in handlers if number in pending])

    __exit__ = ExitMethod(_leave)


def shield_around(handler: Any) -> SignalShield | None:
    """The shield that has set a handler; None if it is the handler of somebody else."""
    owner = getattr(handler, "__self__", None)
    if isinstance(owner, SignalShield):
        return owner
    return None


def handler_behind_shields(number: int) -> Any:
    """The handler of a signal, even while a shield delays the signal."""
    handler: Any = signal.getsignal(number)
    while (shield := shield_around(handler)) is not None:
        handler = shield.handler(number)
    return handler


def set_behind_shields(number: int, handler: Callable[..., Any]) -> None:
    """Give a signal a handler, which a shield calls when it ends."""
    innermost = None
    shield = shield_around(signal.getsignal(number))
    while shield is not None:
        innermost, shield = shield, shield_around(shield.handler(number))
    if innermost is None:
        signal.signal(number, handler)
    else:
        innermost.replace(number, handler)


def restore_handlers(handlers: Handlers) -> None:
    """Give each signal its own handler again."""
    call_all([partial(signal.signal, number, current_handler(handler)) for number, handler in handlers])


def current_handler(handler: Any) -> Any:
    """The handler to restore: of a `Termination` that has ended meanwhile, the one that was there before it."""
    while isinstance(handler, Termination) and handler.is_over:
        handler = handler.previous
    return handler


def call_all(works: list[Callable[[], Any]]) -> None:
    """Call every function, even if an earlier one raises: a pending signal may be raised by any of them."""
    if works:
        try:
            works[0]()
        finally:
            call_all(works[1:])


def start_or_undo(begin: Callable[[], Found], undo: Callable[[Found], None]) -> Found:
    """Run `begin` to completion and return its result; if a signal raised meanwhile, undo the result first."""
    found: list[Found] = []
    try:
        with SignalShield():
            found.append(begin())
    except BaseException:
        with SignalShield():
            for each in found:
                undo(each)
        raise
    return found[0]


def run_to_completion(end: Callable[[], Found]) -> Found:
    """Run `end` to completion even if a signal arrives first; the signal is delivered afterwards.

    If a repeated signal interrupts `end` itself, `end` is called once more: it must then do the rest of its work.
    """
    done: list[Found] = []
    try:
        with SignalShield():
            done.append(end())
    except BaseException as error:
        if not done and is_interrupt(error):
            with SignalShield():
                end()
        raise
    return done[0]


class Termination:
    """Runs `work` on SIGTERM, then lets the signal do what it would have done without.

    That is to end the process, or to run the work of another `Termination`. It does nothing if the program has its own
    handler; with `chains`, that handler runs after the work.

    `defer` receives the function that ends the process. It returns True if it will call that function later, because a
    step is being written now.
    """

    def __init__(
        self, work: Callable[[], None], defer: Callable[[Callable[[], None]], bool], *, chains: bool = False
    ) -> None:
        self._work, self._defer = work, defer
        self._is_asked = False
        self.is_over = False
        self.previous = current_handler(handler_behind_shields(signal.SIGTERM))
        is_main = threading.current_thread() is threading.main_thread()
        is_default = self.previous is signal.SIG_DFL or isinstance(self.previous, Termination)
        if is_main and (is_default or (chains and callable(self.previous))):
            set_behind_shields(signal.SIGTERM, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True
        if not self._defer(self._end):
            self._end()

    def _end(self) -> None:
        self._work()
        self.end_if_asked()

    def end_if_asked(self) -> None:
        """End the process if SIGTERM has arrived, or call the handler that was there before."""
        if self._is_asked:
            self._is_asked = False
            signal.signal(signal.SIGTERM, current_handler(self.previous))
            os.kill(os.getpid(), signal.SIGTERM)

    def forget(self) -> None:
        """Stop handling SIGTERM."""
        self.is_over = True
        current: Any = signal.getsignal(signal.SIGTERM)
        is_main = threading.current_thread() is threading.main_thread()  # no other thread may set a handler
        if current is self and is_main:
            signal.signal(signal.SIGTERM, current_handler(self.previous))


def handler_of_program(handler: Any) -> Any:
    """The handler that the program has set, or the default one, behind those of this file."""
    while isinstance(handler, Termination):
        handler = handler.previous
    return handler


# A child that is forked while a Python handler is set may lose the signal, or wait for a lock for ever. So the handler
# is removed around a fork, and SIGTERM does in the child what it would do without a recording.
_set_aside: list[Termination] = []


def _set_handler_aside() -> None:
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, Termination) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler_of_program(handler))
        _set_aside.append(handler)


def _put_handler_back() -> None:
    if _set_aside:
        signal.signal(signal.SIGTERM, _set_aside.pop())


def _forget_handler() -> None:
    _set_aside.clear()
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, Termination):  # forked by another thread
        signal.signal(signal.SIGTERM, handler_of_program(handler))


at_fork(before=_set_handler_aside, after_in_parent=_put_handler_back, after_in_child=_forget_handler)
