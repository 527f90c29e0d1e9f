"""Attributes and members looked up in plain dictionaries: no property, descriptor or `__getattr__` runs."""

from __future__ import annotations

import builtins
import itertools
import sys
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

MISSING = object()

# Taken from the types themselves: a metaclass may define its own `__mro__` or `__dict__`.
mro_of = type.__dict__["__mro__"].__get__
members_of = type.__dict__["__dict__"].__get__


def in_globals(function: FunctionType, name: str) -> Any:
    """The value of a global name in a function, builtins included."""
    found = function.__globals__.get(name, MISSING)
    if found is MISSING:
        return vars(builtins).get(name, MISSING)
    return found


def contents(cell: Any) -> Any:
    """The value of a variable of an enclosing function."""
    try:
        return cell.cell_contents
    except (AttributeError, ValueError):  # no cell, or an empty one
        return MISSING


def attribute(value: Any, name: str) -> Any:
    """The attribute in the dictionary of an object or of its class; descriptors are not called."""
    if is_module(value):
        names = attributes_of(value)
        if name in names:
            return names[name]
        return sys.modules.get(f"{names.get('__name__')}.{name}", MISSING)
    if is_class(value):
        return in_class(value, name)
    members = attributes_of(value)
    if name in members:
        return members[name]
    parts = members.get("_modules")
    if type(parts) is dict and name in parts:
        return parts[name]
    return in_class(type(value), name)


def attributes_of(value: Any) -> dict[str, Any]:
    """The dictionary of an object; empty if it has none, or if its class defines `__dict__` itself."""
    descriptor = in_class(type(value), "__dict__")
    kind = type(descriptor)
    found = descriptor.__get__(value) if kind in (GetSetDescriptorType, MemberDescriptorType) else None
    if type(found) is dict:
        return found
    return {}


def is_class(value: Any) -> bool:
    """Whether a value is a class; `isinstance` would ask the value for its `__class__`."""
    return issubclass(type(value), type)


def class_of(receiver: Any) -> Any:
    """The class that a receiver is, or the class of the receiver."""
    if is_class(receiver):
        return receiver
    return type(receiver)


def is_module(value: Any) -> bool:
    """Whether a value is a module."""
    return issubclass(type(value), ModuleType)


def in_class(kind: Any, name: str) -> Any:
    """The member of a class or of its bases."""
    return first_member(mro_of(kind), name)


def in_parents(kind: Any, receiver: Any, name: str) -> Any:
    """What `super()` finds in a method of a class."""
    if not is_class(kind):
        return MISSING
    order = mro_of(class_of(receiver))
    if not any(each is kind for each in order):
        order = mro_of(kind)
    rest = itertools.dropwhile(lambda each: each is not kind, order)
    return first_member(tuple(rest)[1:], name)


def first_member(kinds: tuple[type, ...], name: str) -> Any:
    """The member of the first class that has it."""
    for kind in kinds:
        members = members_of(kind)
        if name in members:
            return members[name]
    return MISSING
