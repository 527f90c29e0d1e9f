"""What compiled functions return.

Up to torch 2.11 the wrapper around a compiled function returns its result at once, and keeps it in no variable. There
the wrapper calls a function of insitu while a region is open, which calls the compiled function and holds the result
until the region ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from insitu.capture.modes import skip_when_compiling
from insitu.capture.torch_internals import (
    compiled_call,
    compiled_result,
    keeps_compiled_result,
    replace_compiled_function,
)
from insitu.operating_system import at_fork

get_ident = threading.get_ident


class KeptResult:
    """The result of a compiled call, from the variable that the wrapper keeps it in."""

    def __init__(self, wrapper: FrameType) -> None:
        self._wrapper = wrapper

    def take(self) -> tuple[bool, Any]:
        """Whether the function has returned, and its result. The region has ended."""
        return compiled_result(self._wrapper)


class CaughtResult:
    """The result of a compiled call, from the function that the wrapper calls instead of the compiled one."""

    def __init__(self, wrapper: FrameType) -> None:
        self._wrapper = wrapper
        self._catch = catches.begin(wrapper)

    def take(self) -> tuple[bool, Any]:
        """Whether the function has returned, and its result. The region has ended."""
        results = self._catch.results.pop(get_ident(), ())
        catches.end(self._wrapper, self._catch)
        return bool(results), results[0] if results else None


class Catch:
    """Stands in for one compiled function, in all threads that run it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.results: dict[int, tuple[Any]] = {}  # by thread
        self.regions = 0
        self.call = make_call(self)


def make_call(catch: Catch) -> Callable[..., Any]:
    """The function that is called instead of a compiled function."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = catch.function(*args, **kwargs)
        if catch.regions:
            catch.results[get_ident()] = (result,)
        return result

    skip_when_compiling(call)
    return call


class Catches:
    """The functions that are called in place of compiled ones now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catches: dict[int, Catch] = {}  # by the id of what is called instead

    def begin(self, wrapper: FrameType) -> Catch:
        """A region begins: its wrapper calls the stand-in, which may be there for another thread."""
        with self._lock:
            function = compiled_call(wrapper).function
            catch = self._catches.get(id(function))
            if catch is None:
                catch = Catch(function)
                self._catches[id(catch.call)] = catch
                replace_compiled_function(wrapper, catch.call)
            catch.regions += 1
            return catch

    def end(self, wrapper: FrameType, catch: Catch) -> None:
        """A region has ended: with the last one, the wrapper calls the compiled function again."""
        with self._lock:
            catch.regions -= 1
            if catch.regions == 0:
                del self._catches[id(catch.call)]
                replace_compiled_function(wrapper, catch.function)

    def function(self, wrapper: FrameType) -> Any:
        """The compiled function that a wrapper calls."""
        function = compiled_call(wrapper).function
        catch = self._catches.get(id(function))
        if catch is None:
            return function
        return catch.function

    def abandon(self) -> None:
        """This process is the child of a fork, and whoever held the lock is not here."""
        self._lock = threading.Lock()


catches = Catches()
at_fork(after_in_child=catches.abandon)


def result_of(wrapper: FrameType) -> KeptResult | CaughtResult:
    """What will tell the result of a compiled call that begins now."""
    if keeps_compiled_result(wrapper):
        return KeptResult(wrapper)
    return CaughtResult(wrapper)


skip_when_compiling(
    *(result_of, KeptResult.__init__, KeptResult.take, CaughtResult.__init__, CaughtResult.take),
    *(Catch.__init__, make_call, Catches.begin, Catches.end, Catches.function),
)
