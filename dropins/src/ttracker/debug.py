"""Decorators for a closer look: the stack at each call of a function, and each line that runs in it."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, TypeVar

import insitu
from ttracker.output import lines
from ttracker.tree import GUIDE

F = TypeVar("F", bound=Callable[..., Any])
Within = AbstractContextManager[None]  # can be entered again and again
Begin = Callable[[Any], Within]

OWN = tuple(os.path.join(os.path.dirname(file), "") for file in (__file__, insitu.__file__))
# What others wrote: frames of it are not followed line by line.
FOREIGN = (*OWN, *(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib")), "<frozen ")


def fstack(func: F) -> F:
    """Log the call stack, the outermost first, each time a function is called.

    >>> @fstack
    ... def load(): ...
    >>> load()  # doctest: +ELLIPSIS
    【Call Stack for load】
    -> ...
    -> <module>() at <doctest ttracker.debug.fstack[1]>:1
    """
    stacked: F = around(func, log_stack)
    return stacked


def debug_trace(func: F) -> F:
    """Log each line that runs in a function and in what it calls, as far as that is not installed code.

    >>> @debug_trace
    ... def double(x):
    ...     y = 2 * x
    ...     return y
    >>> double(3)
    【debug_trace for double】
    ┌── 进入函数: double()
    │   ├── [行 3] y = 2 * x
    │   ├── [行 4] return y
    └── 退出函数: double()
    6
    """
    followed: F = around(func, log_lines)
    return followed


def around(func: Any, begin: Begin) -> Any:
    """The function, still of its kind, that runs inside of what `begin(func)` gives, step by step if it has steps."""
    if isinstance(func, (staticmethod, classmethod)):
        return type(func)(around(func.__func__, begin))
    if os.environ.get("INSITU") == "0":
        return func

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            with begin(func):
                return func(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            raise

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from Steps(begin(func), func(*args, **kwargs)))

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await Steps(begin(func), func(*args, **kwargs))

    kind: Any = coroutine if inspect.iscoroutinefunction(func) else call
    standing: Any = functools.wraps(func)(generator if inspect.isgeneratorfunction(func) else kind)
    standing.__dict__.pop("__insitu__", None)  # that is what it stands for, not itself
    standing.__ttracker__ = (standing, begin)
    return standing


NOT_MARKED: tuple[Any, Any] = (None, None)


def beneath(func: Any, decorate: Callable[[Any], Any]) -> Any:
    """Decorate a function under the `fstack` and `debug_trace` it has, so that a tree under them is not made twice."""
    standing, begin = getattr(func, "__ttracker__", NOT_MARKED)
    # Another decorator may have copied the mark of the function it wraps.
    if standing is func:
        return around(beneath(standing.__wrapped__, decorate), begin)
    return decorate(func)


class Steps(Generator[Any, Any, Any]):
    """A generator or coroutine, each step of which runs inside of something."""

    def __init__(self, within: Within, inner: Any) -> None:
        self._within, self._inner = within, inner

    def send(self, value: Any) -> Any:
        """Go on."""
        with self._within:
            return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an exception."""
        with self._within:
            return self._inner.throw(*error)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self


def log_stack(func: Any) -> Within:
    """Log where this is called from."""
    places: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(OWN):
            places.append(f"-> {code.co_name}() at {code.co_filename}:{frame.f_lineno}\n")
        frame = frame.f_back
    lines.write("".join([f"【Call Stack for {name_of(func)}】\n", *reversed(places)]))
    return nullcontext()


def log_lines(func: Any) -> Within:
    """Log that the lines of a function follow; where lines are logged already, they are not logged twice."""
    lines.write(f"【debug_trace for {name_of(func)}】\n")
    code = getattr(inspect.unwrap(func), "__code__", None)
    if here.is_following:
        return nullcontext()
    return Following(code.co_filename if code is not None else "")


def name_of(func: Any) -> str:
    """The name of a function, or of the class of what is called like one."""
    return str(getattr(func, "__name__", type(func).__name__))


class Here(threading.local):
    """Whether the lines of this thread are followed."""

    is_following = False


here = Here()


class Following(AbstractContextManager[None]):
    """Logs functions that are entered and left and lines that run, beside whatever trace function there was.

    A debugger goes on, and is back when this ends, whatever happens.
    """

    def __init__(self, file: str) -> None:
        self._file, self._depth = file, 0
        self._outer: Any = None

    def __enter__(self) -> None:
        self._outer, here.is_following = sys.gettrace(), True
        sys.settrace(self._entered)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._outer)
        self._outer, here.is_following = None, False

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        theirs = self._outer(frame, event, arg) if self._outer is not None else None
        code = frame.f_code
        if code.co_filename != self._file and not is_followed(code.co_filename):
            return theirs
        self._log(f"┌── 进入函数: {code.co_name}()")
        self._depth += 1

        def local(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal theirs
            if theirs is not None:
                theirs = theirs(frame, event, arg) or theirs
            if event == "line":
                text = linecache.getline(code.co_filename, frame.f_lineno).strip()
                self._log(f"├── [行 {frame.f_lineno}] {text}")
            elif event == "return":
                self._depth -= 1
                self._log(f"└── 退出函数: {code.co_name}()")
            return local

        return local

    def _log(self, text: str) -> None:
        lines.write(f"{GUIDE * self._depth}{text}\n")


def is_followed(file: str) -> bool:
    """Whether the lines of a file are followed: not those of others, and not of code that was made while running."""
    return not file.startswith(FOREIGN) and bool(linecache.getlines(file))
