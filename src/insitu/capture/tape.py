"""The tape: one flat list for each thread, to which the probe appends a record for each call.

A record is FIXED slots, then the arguments, then the keyword arguments (names and values in turn), then the stack
((code, instruction) pairs, innermost first). Its offset is the identity of the call. Everything that can wait is
decoded from it later (decode.py). A flat list is the cheapest thing Python can append to: a record is no object.

Some records are SHORT: a change of a variable (a VariableEntry, the value) and, where variables are followed, that a
call was left or entered again (LEFT or ENTERED, its offset), for a change does not say in which call it was made.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

from insitu.capture.torch_internals import STOP_RECOMPUTATION
from insitu.capture.variables.follow.rewrite import Point
from insitu.trace.event import Change, MarkKind, Phase

Tape = list[Any]

CALLEE = 0  # what was called: a FunctionCallee, OperatorCallee, ModuleCallee, PythonCallee, CompiledCallee or MarkEntry
RESULT = 1  # what it returned, RUNNING while it has not, a Raised if it never will
PARENT = 2  # the offset of the call it was made in, or OUTERMOST
START = 3
END = 4
PHASE = 5  # FORWARD; BACKWARD if autograd's engine ran it; RECOMPUTE if forward code ran in the engine
NODES = 6  # the autograd nodes that it made (see `made_nodes`); of an operator in the engine, the one that ran it
ARGS = 7  # how many slots of arguments follow
KWARGS = 8  # and of keyword arguments
FRAMES = 9  # and of the stack; INHERITED: none, the stack is that of the parent
FIXED = 10
SHORT = 2

FORWARD, BACKWARD, RECOMPUTE = 0, 1, 2
PHASES: tuple[Phase, ...] = ("forward", "backward", "recompute")

OUTERMOST = -1
INHERITED = -1
# Autograd numbers its nodes in each thread: the number of the first that a function made, and how many, in one int.
NODE_COUNT = 1 << 48


class _Running:
    """The result of a call that has not returned."""

    __slots__ = ()


RUNNING = _Running()


class Raised:
    """The result of a call that an exception ended; it has no `type` where that is no failure, but torch's own way."""

    __slots__ = ("message", "type")

    def __init__(self, error: BaseException) -> None:
        kind = type(error)
        self.type = kind.__name__ if (kind.__module__, kind.__name__) != STOP_RECOMPUTATION else None
        first = next(iter(arguments_of(error)), None)
        self.message = first if type(first) is str else None  # no text is made here, and the error is not kept


def arguments_of(error: BaseException) -> tuple[Any, ...]:
    """What an exception was made with, whatever its class understands by `args`."""
    found = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    return found if type(found) is tuple else ()


class MarkEntry:
    """A moment on the tape."""

    __slots__ = ("kind", "mark", "text")

    def __init__(self, mark: MarkKind, text: str) -> None:
        self.kind = "mark"
        self.mark = mark
        self.text = text


class VariableEntry:
    """A change of a variable on the tape; `changes` is None where it is found when decoding: for plain numbers."""

    __slots__ = ("changes", "name", "point")

    def __init__(self, point: Point, name: str, changes: tuple[Change, ...] | None) -> None:
        self.point = point
        self.name = name
        self.changes = changes


class _Way:
    """The note of a call that is left or entered again."""

    __slots__ = ()


LEFT, ENTERED = _Way(), _Way()


class Patience:
    """Makes the garbage collector wait longer while anything is traced.

    A growing tape makes the default thresholds look at everything again and again. The thresholds are put back when
    the last session ends, unless somebody else has changed them meanwhile.
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
