"""Where data that is not finite was computed, outside of torch: reads the running frames for `trace.array_source`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from insitu.capture.sites import is_hidden
from insitu.trace.array_source import ArraySearch, RunningScope, is_number, is_risky
from insitu.trace.event import Site
from insitu.trace.source_file import is_library

MOST_FRAMES = 16
METHODS = ("__getitem__", "__iter__", "__next__", "__call__", "__init__")  # of an object that gives data
NOT_DATA = (FunctionType, MethodType, ModuleType, type, nn.Module, str, PurePath)


@dataclass(frozen=True)
class FrameNames:
    """The names that a function can see, and its code: those of a frame, or of a function that does not run."""

    code: CodeType
    names: tuple[dict[str, Any], ...]

    def is_data(self, name: str) -> bool:
        """Whether a dotted name can refer to data, and not to a function, a class, a module or a text."""
        return not isinstance(self._value(name), NOT_DATA)

    def number(self, name: str) -> float | None:
        """The number that a dotted name refers to; None if it is not known, or is something else."""
        found = self._value(name)
        if type(found) in (int, float):
            return float(found)
        return None

    def methods(self, name: str) -> list[FrameNames]:
        """The methods of this name in classes of the user that are visible: that of an object that is not known."""
        classes = dict.fromkeys(kind for names in self.names for kind in classes_among(names.values()))
        found = (names_of(plain_attribute(kind, name)) for kind in classes)
        return [names for names in found if names is not None and not is_library(names.code.co_filename)]

    def called_by(self, name: str) -> list[FrameNames]:
        """The functions of the user that may run where a dotted name is used."""
        found = self._value(name)
        if found is None:
            return []
        return [names for function in functions_of(found) if (names := names_of(function)) is not None]

    def _value(self, name: str) -> Any:
        """What a dotted name refers to; only plain attributes are read, so that no code of the user runs."""
        first, *rest = name.split(".")
        found = next((names[first] for names in self.names if first in names), None)
        for attribute in rest:
            found = plain_attribute(found, attribute)
        return found


def classes_among(values: Iterable[Any]) -> Iterator[type]:
    """The classes among some values, and in the modules of the user that are among them."""
    for value in list(values):
        if isinstance(value, type):
            yield value
        elif isinstance(value, ModuleType) and not is_hidden(getattr(value, "__file__", None) or "<"):
            yield from (kind for kind in list(vars(value).values()) if isinstance(kind, type))


def plain_attribute(owner: Any, name: str) -> Any:
    """An attribute that an object, a class or a module has in its dictionary."""
    kinds = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    for namespace in (getattr(owner, "__dict__", {}), *map(vars, kinds)):
        if name in namespace:
            return namespace[name]
    return None


def functions_of(found: Any) -> Iterator[Any]:
    """The functions that run when an object is called, indexed or iterated over."""
    if isinstance(found, (FunctionType, MethodType)):
        yield found
    elif isinstance(found, (staticmethod, classmethod)):
        yield found.__func__
    elif isinstance(found, DataLoader):
        yield found.collate_fn
        yield from functions_of(found.dataset)
    elif isinstance(found, type) or hasattr(type(found), "__getitem__") or hasattr(type(found), "__iter__"):
        kind = found if isinstance(found, type) else type(found)
        yield from (plain_attribute(kind, method) for method in METHODS)


def names_of(function: Any) -> FrameNames | None:
    """The names that a function of the user can see; None for other objects."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or is_hidden(code.co_filename):
        return None
    return FrameNames(code, (closure_of(function), function.__globals__))


def closure_of(function: Any) -> dict[str, Any]:
    """The names that a function has from the functions around it; a name may have no value yet."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def running_scopes() -> list[RunningScope]:
    """The functions of the user that run now, the innermost first."""
    found: list[RunningScope] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < MOST_FRAMES:
        if not is_hidden(frame.f_code.co_filename):
            found.append(RunningScope(FrameNames(frame.f_code, (frame.f_locals, frame.f_globals)), frame.f_lasti))
        frame = frame.f_back
    return found


class ArraySources:
    """The lines of NumPy behind data; each place where data comes in is searched once."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeType, int], tuple[Site, ...]] = {}

    def here(self) -> tuple[Site, ...]:
        """The lines that can have produced a NaN or Inf in the data that the running line uses."""
        stack = running_scopes()
        if not stack:
            return ()
        key = (stack[0].scope.code, stack[0].instruction)
        if key not in self._known:
            self._known[key] = tuple(ArraySearch(stack, is_risky).sites())
        return self._known[key]

    @staticmethod
    def of_number(number: float) -> tuple[Site, ...]:
        """The lines that can have put a number into the data that the running line uses."""
        return tuple(ArraySearch(running_scopes(), is_number(number)).sites())
