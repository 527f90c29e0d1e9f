"""The functions that a watched function can call, as far as they have variables of the names that are followed."""

from __future__ import annotations

import inspect
import weakref
from types import CodeType, FunctionType
from typing import Any

from torch import nn

from insitu.capture.variables.follow.callees import callees
from insitu.capture.variables.follow.lookup import attributes_of
from insitu.capture.variables.follow.rewrite import known_names
from insitu.capture.variables.patterns import VariablePatterns, patterns_of
from insitu.errors import tell
from insitu.trace.path import suggestion

MOST_SEARCHES = 100  # results that are remembered, for calls with different objects


class Reach:
    """The functions that one watched function can call; searched at its first call."""

    def __init__(self, function: Any, name: str) -> None:
        self._function = function
        self._name = name
        self._found: dict[tuple[Any, ...], list[weakref.ref[FunctionType]]] = {}
        self._warned: set[str] = set()

    def functions(
        self, arguments: dict[str, Any], patterns: VariablePatterns, required: tuple[str, ...]
    ) -> list[FunctionType]:
        """The functions whose code is swapped, for a call with these arguments.

        `required` are the patterns that must name a variable here; the others come from watched functions further out.
        """
        receiver = next(iter(arguments.values()), None)
        called = {name: value for name, value in arguments.items() if callable(value)}
        key = (id(type(receiver)), *callables_in(receiver), *map(id, called.values()), patterns.patterns)
        found = self._known(key)
        if found is None:
            found = self._search(receiver, called, patterns, required)
            if len(self._found) >= MOST_SEARCHES:
                self._found.clear()
            self._found[key] = [weakref.ref(function) for function in found]
        return found

    def _known(self, key: tuple[Any, ...]) -> list[FunctionType] | None:
        """The result of an earlier search; None if there is none, or if one of its functions is gone."""
        if key not in self._found:
            return None
        functions = [reference() for reference in self._found[key]]
        alive = [function for function in functions if function is not None]
        if len(alive) == len(functions):
            return alive
        return None

    def _search(
        self, receiver: Any, called: dict[str, Any], patterns: VariablePatterns, required: tuple[str, ...]
    ) -> list[FunctionType]:
        reached = [function for function in self._callees(receiver, called) if not is_watched(function)]
        self._warn(reached, required)
        return [function for function in reached if any(map(patterns.wanted, known_names(function.__code__)))]

    def _callees(self, receiver: Any, called: dict[str, Any]) -> list[FunctionType]:
        """The functions that can be reached; of an object that wraps a function, that function is the first."""
        if isinstance(self._function, FunctionType):
            return callees(self._function, receiver, arguments=called)
        inner = original_of(self._function)
        if inner is None:
            return []
        return [inner, *callees(inner, receiver, arguments=called)]

    def _warn(self, reached: list[FunctionType], required: tuple[str, ...]) -> None:
        """Warn of patterns that name no variable of the function, nor of the functions that it calls."""
        codes = [each.__code__ for each in (self._function, *reached) if isinstance(each, FunctionType)]
        if not codes:
            return
        known = {name for code in codes for name in known_names(code)}
        for pattern in required:
            is_known = any(map(patterns_of((pattern,)).wanted, known))
            if is_known or pattern in self._warned:
                continue
            self._warned.add(pattern)
            near = suggestion(pattern.partition(".")[0], known)
            tell(f"neither {self._name} nor what it calls has a variable {pattern!r}{near}")


def original_of(function: Any) -> FunctionType | None:
    """The function that the user wrote, without its decorators; None for one that is not written in Python."""
    try:
        inner = inspect.unwrap(function)
    except ValueError:  # it wraps itself
        return None
    if isinstance(inner, FunctionType):
        return inner
    call = getattr(inner, "__func__", None) or inspect.getattr_static(type(inner), "__call__", None)
    if isinstance(call, FunctionType):
        return call
    return None


def callables_in(receiver: Any) -> list[int]:
    """The ids of the callables in an object: which functions it reaches depends on them, and on its class."""
    if issubclass(type(receiver), nn.Module):
        return [id(receiver)]
    return [id(value) for value in attributes_of(receiver).values() if callable(value)]


# The code of watched functions, by id, held so that no other code gets the id. These functions report for themselves.
watched_codes: dict[int, CodeType] = {}


def is_watched(function: FunctionType) -> bool:
    """Whether a function is watched, or replaces a watched one: when it is called, its own copy runs."""
    if id(function.__code__) in watched_codes:
        return True
    watch = function.__dict__.get("__insitu__")
    return watch is not None and watch.replacement is function
