"""`watch` as a decorator: of anything that can be called, and of all methods of a class."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from insitu.capture.variables.function_watch import FunctionWatch, OwnSession, code_of, replacement_for, watch_of
from insitu.errors import SubjectError

# The special methods of a class that are watched with it; the others are called by Python at any time.
SPECIAL = frozenset(
    {"__init__", "__call__", "__getitem__", "__setitem__", "__iter__", "__next__", "__enter__", "__exit__"}
)
WRAPPERS = (staticmethod, classmethod)


def decorated(target: Any, patterns: tuple[str, ...], alone: OwnSession, *, warns: bool = True) -> Any:
    """The same thing, watched: a function stays a function, a method a method, a class the very same class."""
    if isinstance(target, type):
        return decorated_class(target, patterns, alone)
    if isinstance(target, WRAPPERS):
        return type(target)(decorated(target.__func__, patterns, alone, warns=warns))
    if type(target) is property:
        get, put, delete = (
            part and decorated(part, patterns, alone, warns=warns) for part in (target.fget, target.fset, target.fdel)
        )
        return type(target)(get, put, delete, target.__doc__)
    if isinstance(target, functools.cached_property):
        return type(target)(decorated(target.func, patterns, alone, warns=warns))
    if isinstance(target, functools.partial):
        return type(target)(decorated(target.func, patterns, alone, warns=warns), *target.args, **target.keywords)
    if isinstance(target, MethodType):
        return MethodType(decorated(target.__func__, patterns, alone, warns=warns), target.__self__)
    if not callable(target):
        raise SubjectError(f"insitu.watch cannot watch a {type(target).__name__}: it decorates functions and classes")
    return decorated_function(target, patterns, alone, warns)


def decorated_function(function: Callable[..., Any], patterns: tuple[str, ...], alone: OwnSession, warns: bool) -> Any:
    """A function that is watched; one that is so already is watched once, with the variables of both."""
    inner = watch_of(function)
    if inner is not None:
        return decorated_function(inner.function, tuple(dict.fromkeys((*patterns, *inner.patterns))), alone, warns)
    if patterns and code_of(function) is None:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise SubjectError(
            f"{name} is not written in Python: it has no variables to follow. "
            f"Without names, insitu.watch shows what goes in and comes out"
        )
    return replacement_for(FunctionWatch(function, patterns, alone, warns=warns))


def decorated_class(cls: type, patterns: tuple[str, ...], alone: OwnSession) -> type:
    """The class, with all methods that it defines itself watched."""
    methods = (FunctionType, property, functools.cached_property, *WRAPPERS)
    for name, member in list(vars(cls).items()):
        special = name.startswith("__") and name.endswith("__")
        foreign = isinstance(member, property) and type(member) is not property  # it may be made in its own way
        if isinstance(member, methods) and not foreign and (not special or name in SPECIAL):
            replacement = decorated(member, patterns, alone, warns=False)
            setattr(cls, name, replacement)
            if hasattr(replacement, "__set_name__"):
                replacement.__set_name__(cls, name)
    return cls
