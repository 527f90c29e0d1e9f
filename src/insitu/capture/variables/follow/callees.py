"""Which functions a function can call, found without running anything.

Each name in the code of the function is looked up where Python would find it, in plain dictionaries only: no property,
`__getattr__` or descriptor of the program runs.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from inspect import CO_VARARGS
from types import FunctionType, MethodType
from typing import Any

from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.lookup import (
    attribute,
    attributes_of,
    class_of,
    contents,
    in_class,
    in_globals,
    in_parents,
    is_class,
    is_module,
)
from insitu.capture.variables.follow.references import Reference, references

# Libraries whose functions are passed over, like those of the standard library.
LIBRARIES = ("torch", "numpy", "insitu")
STANDARD = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")})
ADDED = ("site-packages", "dist-packages")
# A class that is reached by its name may be called, and so may its objects.
CONSTRUCTION = ("__init__", "__new__", "__call__")
# The search gives up after so many times the limit; a function counts once for each receiver.
PATIENCE = 30


def callees(
    function: Any, receiver: Any = None, limit: int = 200, *, arguments: dict[str, Any] | None = None
) -> list[FunctionType]:
    """The Python functions that a function can reach, nearest first, each once, without the function itself.

    `receiver` is what its first argument will be: methods are found in its class, modules in its attributes.
    `arguments` are others of its arguments, by name, that it may call.

    >>> def inner(): return len("")
    >>> def middle(): return [inner() for _ in range(3)]
    >>> def outer(): return middle()
    >>> [found.__name__ for found in callees(outer)]
    ['middle', 'inner']
    """
    if type(function) is MethodType:
        function, receiver = function.__func__, function.__self__
    if type(function) is not FunctionType:
        return []
    return CalleeSearch(limit, arguments or {}).run(function, receiver)


class CalleeSearch:
    """One search, breadth first; functions that are reached again, with another receiver, come last."""

    def __init__(self, limit: int, arguments: dict[str, Any]) -> None:
        self.limit = limit
        self._arguments = arguments  # of the first function that is looked into
        self.found: dict[int, FunctionType] = {}
        # Functions to look into, and functions to look into once more, with another receiver: these come last.
        self._waiting: deque[tuple[FunctionType, Any]] = deque()
        self._again: deque[tuple[FunctionType, Any]] = deque()
        # By id, never by hash: a hash may run code of the user. The objects are held so that their ids stay theirs.
        self._seen: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._objects: dict[int, Any] = {}
        self._references: dict[int, list[Reference]] = {}

    def run(self, function: FunctionType, receiver: Any) -> list[FunctionType]:
        """All functions that are reached from this one."""
        self.add(function, receiver, walk=True)
        while waiting := self._waiting or self._again:
            if self._is_exhausted():
                break
            self.look_into(*waiting.popleft())
        self.found.pop(id(function), None)
        return list(self.found.values())[: self.limit]

    def _is_exhausted(self) -> bool:
        """Whether the search has found enough, or has looked long enough."""
        return len(self.found) > self.limit or len(self._seen) > PATIENCE * self.limit

    def add(self, function: FunctionType, receiver: Any, *, walk: bool = False) -> None:
        """Add a function that is reached, with its first argument if that is known."""
        key = (id(function), id(receiver))
        if key in self._seen:
            return
        self._seen[key] = (function, receiver)
        wrapped = function.__dict__.get("__wrapped__")
        if wrapped is not None:
            self.member(wrapped, receiver)
        if walk or not is_library(function.__code__.co_filename):
            self._enqueue(function, receiver)
        else:
            self._reach_decorated(function, receiver)

    def _enqueue(self, function: FunctionType, receiver: Any) -> None:
        if id(function) in self.found:
            self._again.append((function, receiver))
            return
        self.found[id(function)] = function
        self._waiting.append((function, receiver))

    def _reach_decorated(self, wrapper: FunctionType, receiver: Any) -> None:
        """Reach what the decorator of a library decorates; the wrapper itself is not looked into."""
        for cell in wrapper.__closure__ or ():
            value = contents(cell)
            if type(value) in CALLABLES:
                self.enclosed(value, receiver)

    def look_into(self, function: FunctionType, receiver: Any) -> None:
        """Reach everything that the code of a function refers to."""
        code = function.__code__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        first = code.co_varnames[0] if code.co_argcount else None
        given, self._arguments = self._arguments, {}
        for kind, name, attributes in self._references_in(function, first):
            if kind == "global":
                self.follow(in_globals(function, name), attributes)
            elif kind == "super":
                self.member(in_parents(contents(cells.get("__class__")), receiver, name), receiver)
            elif name in given:
                self.follow(given[name], attributes)
            elif name == first:
                self._look_into_receiver(receiver, attributes)
            elif name in cells:
                self._look_into_cell(name, contents(cells[name]), attributes, receiver)

    def _look_into_receiver(self, receiver: Any, attributes: tuple[str, ...]) -> None:
        """Reach attributes of the first argument; the argument itself is not called."""
        if attributes and receiver is not None:
            self.follow(receiver, attributes)

    def _look_into_cell(self, name: str, value: Any, attributes: tuple[str, ...], receiver: Any) -> None:
        """Reach a variable of an enclosing function, or its attributes."""
        if attributes:
            self.follow(value, attributes)
        elif name != "__class__":  # that one is loaded for `super()`
            self.enclosed(value, receiver)

    def _references_in(self, function: FunctionType, first: str | None) -> list[Reference]:
        """The references in the code of a function; the second time, only those that depend on the first argument."""
        found = self._references.get(id(function))
        if found is None:
            code = function.__code__
            found = [each for part in (code, *nested_codes(code)) for each in references(part)]
            # Decorators pass the first argument on to the function that they decorate.
            names = {first, *code.co_freevars}
            self._references[id(function)] = [each for each in found if depends_on(each, names)]
        return found

    def enclosed(self, value: Any, receiver: Any) -> None:
        """Reach a variable of an enclosing function: if it is a method, its decorator calls it with the same object."""
        if type(value) is FunctionType and may_take_self(value):
            self.add(value, receiver)
        else:
            self.reach(value)

    def follow(self, value: Any, attributes: tuple[str, ...]) -> None:
        """Reach the end of a chain of attributes, or the first property or method in the chain."""
        for name in attributes:
            owner, value = value, attribute(value, name)
            if type(value) in MEMBERS and not is_module(owner):
                self.member(value, owner)
                return
        self.reach(value)

    def member(self, value: Any, receiver: Any) -> None:
        """Reach a member of a class that is called with the receiver."""
        reach_member = MEMBERS.get(type(value))
        if reach_member is not None:
            reach_member(self, value, receiver)
        else:
            self.reach(value)

    def _static_method(self, value: Any, receiver: Any) -> None:
        self.reach(value.__func__)

    def _class_method(self, value: Any, receiver: Any) -> None:
        self.member(value.__func__, class_of(receiver))

    def _property(self, value: Any, receiver: Any) -> None:
        for part in (value.fget, value.fset, value.fdel):
            self.member(part, receiver)

    def _cached_property(self, value: Any, receiver: Any) -> None:
        self.member(value.func, receiver)

    def reach(self, value: Any) -> None:
        """Reach what runs when a value is called."""
        reach_callable = CALLABLES.get(type(value))
        if reach_callable is not None:
            reach_callable(self, value)
        elif is_class(value):
            self._reach_class(value)
        elif id(value) not in self._objects:
            self._objects[id(value)] = value
            self._reach_object(value)

    def _reach_function(self, value: FunctionType) -> None:
        self.add(value, None)

    def _reach_method(self, value: MethodType) -> None:
        self.member(value.__func__, value.__self__)

    def _reach_partial(self, value: Any) -> None:
        self.reach(value.func)

    def _reach_class(self, value: Any) -> None:
        """Reach the methods that run when an object of a class is created, or called."""
        for name in CONSTRUCTION:
            self.member(in_class(value, name), value)
        self.member(in_class(type(value), "__call__"), value)

    def _reach_object(self, value: Any) -> None:
        """Reach what runs when an object that is neither a function nor a class is called."""
        attributes = attributes_of(value)
        if "__wrapped__" in attributes:
            self.reach(attributes["__wrapped__"])
        forward, parts = in_class(type(value), "forward"), attributes.get("_modules")
        if type(forward) is FunctionType and type(parts) is dict:
            self._reach_module(value, forward, parts)
            return
        call = in_class(type(value), "__call__")
        if type(call) in MEMBERS:
            self.member(call, value)

    def _reach_module(self, module: Any, forward: FunctionType, parts: dict[str, Any]) -> None:
        """Reach the `forward` of a module; a container of a library calls the modules in it."""
        self.add(forward, module)
        if is_library(forward.__code__.co_filename):
            for part in parts.values():
                self.reach(part)


# How the members of a class are reached, and the values that can be called, by type.
MEMBERS: dict[type, Callable[[CalleeSearch, Any, Any], None]] = {
    FunctionType: CalleeSearch.add,
    staticmethod: CalleeSearch._static_method,
    classmethod: CalleeSearch._class_method,
    property: CalleeSearch._property,
    functools.cached_property: CalleeSearch._cached_property,
}
CALLABLES: dict[type, Callable[[CalleeSearch, Any], None]] = {
    FunctionType: CalleeSearch._reach_function,
    MethodType: CalleeSearch._reach_method,
    functools.partial: CalleeSearch._reach_partial,
}


def depends_on(reference: Reference, names: set[str | None]) -> bool:
    """Whether a reference leads elsewhere if local variables of these names are other objects."""
    if reference.kind == "local":
        return reference.name in names
    return reference.kind == "super"


def may_take_self(function: FunctionType) -> bool:
    """Whether the first argument of a function may be the object that it belongs to, judged by its name."""
    code = function.__code__
    if code.co_argcount:
        return code.co_varnames[0] in ("self", "cls")
    return bool(code.co_flags & CO_VARARGS)


def is_library(filename: str) -> bool:
    """Whether a file belongs to the standard library, or to one of the libraries that are passed over."""
    if filename.startswith("<"):
        return not linecache.getlines(filename)  # code from exec without lines to show
    return _is_library_file(filename)


@lru_cache(maxsize=4096)
def _is_library_file(filename: str) -> bool:
    if filename.startswith(tuple(_library_folders())):
        return True
    return filename.startswith(STANDARD) and not any(name in filename for name in ADDED)


def _library_folders() -> Iterator[str]:
    for name in LIBRARIES:
        if name in sys.modules:
            yield from (os.path.join(folder, "") for folder in vars(sys.modules[name]).get("__path__", ()))
