"""Functions of the program by name: what `train.loss` and `Trainer.run.self.loss` begin with."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

from insitu.capture.variables.follow.callees import ADDED, is_library
from insitu.capture.variables.follow.lookup import attribute, attributes_of, in_class, is_class, is_module
from insitu.capture.variables.reach import original_of
from insitu.trace.path import Segments, is_wild

FORWARD = "forward"  # begins paths in the model: it is not looked up as the name of a method


class FunctionSearch:
    """Finds functions of the program by name, without running code of it; those of torch and Python are left out.

    It looks into spaces, each with values by name, and then among the functions that are called.
    """

    def __init__(
        self, spaces: Sequence[Mapping[str, Any]], callees: Callable[[], Iterable[FunctionType]] = lambda: ()
    ) -> None:
        self._spaces, self._callees = spaces, callees

    def named(self, name: Segments) -> Iterator[FunctionType]:
        """The functions with a name such as `train`, `Trainer.run` or `engine.train`, nearest first."""
        if any(map(is_wild, name)):
            return
        for space in self._spaces:
            if name[0] in space:
                yield from functions_of(member_at(space[name[0]], name[1:]))
        if len(name) == 1 and name[0] != FORWARD:
            yield from self._members(name[0])

    def _members(self, name: str) -> Iterator[FunctionType]:
        """The methods of this name, of the classes and objects in the spaces, and functions that are called."""
        for space in self._spaces:
            for value in list(space.values()):
                yield from functions_of(member_of(value, name))
        yield from (function for function in self._callees() if function.__name__ == name)


def member_at(value: Any, names: Segments) -> Any:
    """What a chain of attributes leads to."""
    for name in names:
        value = attribute(value, name)
    return value


def member_of(value: Any, name: str) -> Any:
    """The function of this name in a module, a class, or the class of an object."""
    if is_module(value):
        return attributes_of(value).get(name)
    return in_class(value if is_class(value) else type(value), name)


def is_code(value: Any) -> bool:
    """Whether a value is a function, a class or a module: what follows its name is not a part of a variable."""
    return is_class(value) or is_module(value) or isinstance(value, (FunctionType, functools.partial))


def functions_of(value: Any) -> Iterator[FunctionType]:
    """The function that runs when a value is called, as the user wrote it; nothing for one of torch or Python."""
    while isinstance(value, (staticmethod, classmethod, MethodType)):
        value = value.__func__
    if isinstance(value, functools.partial):
        value = value.func
    if type(value) is not FunctionType:
        return
    function = original_of(value)
    if function is not None and not is_library(function.__code__.co_filename):
        yield function


def modules_of_program() -> list[ModuleType]:
    """The modules that belong to the program: not those of Python, and not those of packages that were installed."""
    return [module for module in list(sys.modules.values()) if is_module(module) and is_own(module)]


def is_own(module: ModuleType) -> bool:
    """Whether a module is part of the program that runs."""
    file = attributes_of(module).get("__file__")
    if type(file) is not str or any(name in file for name in ADDED):
        return False
    return not is_library(file)
