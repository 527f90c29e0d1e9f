"""What the methods of a class return, given to those who listen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from insitu.capture.modes import skip_when_compiling

Listener = Callable[[Any, Any], None]


class Giver:
    """A method of a class that also gives what it returns to all who listen; without any, it is the original again."""

    _all: ClassVar[dict[tuple[type, str], Giver]] = {}

    def __init__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name
        self._original = original = vars(owner)[name]
        self._listeners: list[Listener] = []
        function = getattr(original, "__func__", original)
        is_static = isinstance(original, staticmethod)

        @functools.wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            for listener in self._listeners:
                listener(None if is_static else args[0], result)
            return result

        skip_when_compiling(method)
        is_wrapped = isinstance(original, (staticmethod, classmethod))
        self._replacement = type(original)(method) if is_wrapped else method
        setattr(owner, name, self._replacement)

    @classmethod
    def of(cls, owner: type, name: str) -> Giver:
        """The one of a method; there is never more than one."""
        if (owner, name) not in cls._all:
            cls._all[owner, name] = cls(owner, name)
        return cls._all[owner, name]

    def listen(self, listener: Listener) -> Listener:
        """Somebody wants what the method returns."""
        self._listeners = [*self._listeners, listener]
        return listener

    def forget(self, listener: Listener) -> None:
        """And wants it no more."""
        self._listeners = [other for other in self._listeners if other is not listener]
        if not self._listeners:
            self._all.pop((self._owner, self._name), None)
            if vars(self._owner).get(self._name) is self._replacement:  # what others put there is left alone
                setattr(self._owner, self._name, self._original)
