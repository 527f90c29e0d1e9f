"""Everything insitu raises.

InsituError
├── SubjectError      the thing to trace is none that can be traced
├── ChoiceError       an option with a value that does not exist
├── PatternError      a path pattern that is malformed, or can never match
├── StoreError        a file that cannot be read or written
│   └── NewerVersionError  a file that a newer version of insitu wrote
├── RanksError        recordings of ranks that do not belong together, or cannot be joined
├── NotRecordedError  a path or a step that a run does not hold
├── MissingError      a feature whose package is not installed
└── NonFiniteError    a call of the user's program that produced NaN or Inf, under `insitu.guard`
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insitu.trace.findings import Finding

_NOT_THEIRS = (os.path.join(os.path.dirname(__file__), ""), contextlib.__file__)


class InsituError(Exception):
    """The root of all errors of insitu: `except insitu.InsituError` catches them all."""


class SubjectError(InsituError, TypeError):
    """The thing to trace is none that can be traced."""


class ChoiceError(InsituError, ValueError):
    """An option was given a value that does not exist."""


class PatternError(InsituError, ValueError):
    """A path pattern is malformed, or can never match."""


class StoreError(InsituError, OSError):
    """A file cannot be read or written."""


class NewerVersionError(StoreError):
    """A newer version of insitu wrote the file: it is not damaged, and this version cannot read it."""


class RanksError(InsituError, ValueError):
    """Recordings of several ranks do not belong together, or cannot be joined."""


class NotRecordedError(InsituError, KeyError):
    """A path or a step that a run does not hold."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would put it in quotes


class MissingError(InsituError, ImportError):
    """A feature needs a package that is not installed."""


class NonFiniteError(InsituError, FloatingPointError):
    """A call turned finite numbers into NaN or Inf; `finding` says which, where and of what."""

    def __init__(self, text: str, finding: Finding | None = None) -> None:
        super().__init__(text)
        self.finding = finding


class InsituWarning(UserWarning):
    """Something about the tracing that the user should know; the run goes on."""


class Outside(threading.local):
    """How the command `insitu` says something when no code of the user's program is running."""

    say: Callable[[str], None] | None = None


outside = Outside()
own_threads: set[int] = set()  # the idents of threads that run no code of the user


def tell(text: str) -> None:
    """Warn the user; print the text where warnings are errors, because the user's program did nothing wrong."""
    try:
        if threading.get_ident() in own_threads:
            _warn_at_main_thread(text)
        else:
            _warn_here(text)
    except InsituWarning:
        print(text, file=sys.stderr)


def _warn_here(text: str) -> None:
    """Warn at the line of the user that this thread executes."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THEIRS):
        frame, level = frame.f_back, level + 1
    if outside.say is not None and frame.f_back is None:
        outside.say(text)
        return
    warnings.warn(text, InsituWarning, stacklevel=level)


def _warn_at_main_thread(text: str) -> None:
    """Warn at the line of the user that the main thread executes: this thread has none."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THEIRS):
        frame = frame.f_back
    warnings.warn_explicit(text, InsituWarning, frame.f_code.co_filename, frame.f_lineno)


class Troubles:
    """Reports errors of the tool itself: once for each kind, as a warning, and the user's program goes on.

    `mark` also receives the text, to put it into the trace.
    """

    def __init__(self, mark: Callable[[str], None] | None = None) -> None:
        self._reported: set[str] = set()
        self._mark = mark

    def __call__(self, what: str, error: Exception) -> None:
        """Report that `what` failed; an exception that a signal handler of the user raised goes on."""
        if came_by_signal(error):
            raise error
        if what in self._reported:
            return
        self._reported.add(what)
        text = f"insitu failed at {what} and goes on without it: {type(error).__name__}: {error}"
        tell(text)
        if self._mark is not None:
            self._mark(text)


def came_by_signal(error: BaseException) -> bool:
    """Whether a signal handler of the user raised this, at a moment when the tool was running: then it is theirs."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {id(code) for handler in handlers if (code := getattr(handler, "__code__", None)) is not None}
    traceback = error.__traceback__
    while traceback is not None:
        if id(traceback.tb_frame.f_code) in codes:
            return True
        traceback = traceback.tb_next
    return False


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception ends or interrupts the program (Ctrl-C, an alarm), and is not an error of the tool."""
    return not isinstance(error, Exception) or came_by_signal(error)


def choose(option: str, value: object, choices: Iterable[str]) -> str:
    """The value if it is one of the choices; an error that names them, and the nearest, if not."""
    names = list(choices)
    if isinstance(value, str) and value in names:
        return value
    near = get_close_matches(str(value), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ChoiceError(f"{option}={value!r} is not one of {', '.join(map(repr, names))}{hint}")


def brief(item: object) -> str:
    """An object of the user in a few words, whatever its repr does."""
    try:
        text = repr(item)
    except Exception:
        text = "an object that cannot be printed"
    return f"{' '.join(text.split()):.80} (a {type(item).__name__})"


def not_entered(block: object, name: str, gives: type, verb: str, word: str) -> AttributeError:
    """An attribute that a `with` block lacks; if what the block gives has it, the `with` was forgotten."""
    if hasattr(gives, name) and not name.startswith("_"):
        text = f"nothing is recorded without a `with`: `with insitu.{verb}(...) as {word}:`, then `{word}.{name}`"
    else:
        text = f"{type(block).__name__!r} object has no attribute {name!r}"
    return AttributeError(text, name=name, obj=block)
