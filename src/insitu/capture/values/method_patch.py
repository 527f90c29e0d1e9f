"""Methods that tell listeners what they return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from insitu.capture.modes import skip_when_compiling

Listener = Callable[[Any, Any], None]


class MethodPatch:
    """A method that calls listeners with each result; when the last listener is gone, the original is back."""

    _all: ClassVar[dict[tuple[type, str], MethodPatch]] = {}

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
    def of(cls, owner: type, name: str) -> MethodPatch:
        """The patch of a method; a method has one at most."""
        if (owner, name) not in cls._all:
            cls._all[owner, name] = cls(owner, name)
        return cls._all[owner, name]

    def listen(self, listener: Listener) -> Listener:
        """Call a listener with the object and each result."""
        self._listeners = [*self._listeners, listener]
        return listener

    def forget(self, listener: Listener) -> None:
        """Call a listener no more."""
        self._listeners = [other for other in self._listeners if other is not listener]
        if not self._listeners:
            self._all.pop((self._owner, self._name), None)
            if vars(self._owner).get(self._name) is self._replacement:  # a patch of somebody else stays
                setattr(self._owner, self._name, self._original)
