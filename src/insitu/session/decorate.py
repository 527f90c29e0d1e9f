"""`watch` as a decorator: of anything that can be called, and of all methods of a class."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from insitu.capture.variables.function_watch import FunctionWatch, OwnSession, code_of, replacement_for, watch_of
from insitu.errors import SubjectError

# The special methods of a class that are watched with it. Python may call the others at any time.
SPECIAL = frozenset(
    {"__init__", "__call__", "__getitem__", "__setitem__", "__iter__", "__next__", "__enter__", "__exit__"}
)
WRAPPERS = (staticmethod, classmethod)
METHODS = (FunctionType, property, functools.cached_property, *WRAPPERS)


def decorate(target: Any, patterns: tuple[str, ...], own_session: OwnSession) -> Any:
    """Watch a target: a function stays a function, a method a method, a class the very same class."""
    if isinstance(target, type):
        decorate_methods(target, patterns, own_session)
        return target
    return Decoration(patterns, own_session, warns=True).apply(target)


def decorate_methods(cls: type, patterns: tuple[str, ...], own_session: OwnSession) -> None:
    """Watch all methods that a class defines itself."""
    decoration = Decoration(patterns, own_session, warns=False)
    for name, member in list(vars(cls).items()):
        if not is_watched_method(name, member):
            continue
        replacement = decoration.apply(member)
        setattr(cls, name, replacement)
        if hasattr(replacement, "__set_name__"):
            replacement.__set_name__(cls, name)


def is_watched_method(name: str, member: object) -> bool:
    """Whether a member of a class is watched together with the class."""
    if not isinstance(member, METHODS):
        return False
    if isinstance(member, property) and type(member) is not property:
        return False  # the constructor of a subclass of property may take other arguments
    is_special = name.startswith("__") and name.endswith("__")
    return not is_special or name in SPECIAL


class Decoration:
    """Watches functions; what wraps a function is taken apart and put together again."""

    def __init__(self, patterns: tuple[str, ...], own_session: OwnSession, *, warns: bool) -> None:
        self._patterns, self._own_session, self._warns = patterns, own_session, warns

    def apply(self, target: Any) -> Any:
        """The watched form of a target."""
        for kind, rebuild in self._WAYS:
            if isinstance(target, kind):
                return rebuild(self, target)
        if not callable(target):
            raise not_watchable(target)
        return self._function(target, self._patterns)

    def _wrapper(self, target: Any) -> Any:
        return type(target)(self.apply(target.__func__))

    def _property(self, target: property) -> Any:
        if type(target) is not property:
            raise not_watchable(target)
        get, set_, delete = (self._accessor(part) for part in (target.fget, target.fset, target.fdel))
        return property(get, set_, delete, target.__doc__)

    def _accessor(self, function: Callable[..., Any] | None) -> Any:
        if function is None:
            return None
        return self.apply(function)

    def _cached_property(self, target: functools.cached_property[Any]) -> Any:
        return type(target)(self.apply(target.func))

    def _partial(self, target: functools.partial[Any]) -> Any:
        return type(target)(self.apply(target.func), *target.args, **target.keywords)

    def _method(self, target: MethodType) -> Any:
        return MethodType(self.apply(target.__func__), target.__self__)

    def _function(self, function: Callable[..., Any], patterns: tuple[str, ...]) -> Any:
        """A watched function; a function that is watched already is watched once, with the variables of both."""
        inner = watch_of(function)
        if inner is not None:
            return self._function(inner.function, tuple(dict.fromkeys((*patterns, *inner.patterns))))
        if patterns and code_of(function) is None:
            name = getattr(function, "__qualname__", type(function).__qualname__)
            raise SubjectError(
                f"{name} is not written in Python: it has no variables to follow. "
                f"Without names, insitu.watch shows its arguments and its result"
            )
        return replacement_for(FunctionWatch(function, patterns, self._own_session, warns=self._warns))

    _WAYS: tuple[tuple[Any, Callable[[Any, Any], Any]], ...] = (
        (WRAPPERS, _wrapper),
        (property, _property),
        (functools.cached_property, _cached_property),
        (functools.partial, _partial),
        (MethodType, _method),
    )


def not_watchable(target: object) -> SubjectError:
    """The error for a target that has no code to watch."""
    return SubjectError(f"insitu.watch cannot watch a {type(target).__name__}: it decorates functions and classes")
