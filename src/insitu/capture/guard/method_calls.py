"""Methods of torch that a guard listens to: each is replaced while there are listeners.

None of them is on the hot path: a model changes its mode, a parameter, an optimizer or a schedule is made, a loss is
scaled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from typing import Any

from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

Method = Callable[..., Any]
Trouble = Callable[[str, Exception], None]


def ignore_end() -> None:
    """The end of a call does not matter."""


@dataclass(frozen=True, slots=True)
class MethodListener:
    """Hears of calls: `hear` gets the object whose method is called, and the arguments; `trouble` gets its errors.

    `hear_end` is called when the method has returned, or an exception has ended it.
    """

    hear: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
    trouble: Trouble
    hear_end: Callable[[], None] = ignore_end

    def begin(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call begins."""
        try:
            self.hear(instance, args, kwargs)
        except Exception as error:
            self.trouble("listening to torch", error)

    def end(self) -> None:
        """A call has ended."""
        try:
            self.hear_end()
        except Exception as error:
            self.trouble("listening to torch", error)


@dataclass(frozen=True, slots=True)
class ReplacedMethod:
    """A method of a class, and the function that is there while somebody listens."""

    owner: type
    name: str
    original: Method
    replacement: Method

    def restore(self) -> None:
        """Put the method back, unless somebody else has replaced it since."""
        if vars(self.owner).get(self.name) is self.replacement:
            setattr(self.owner, self.name, self.original)


class MethodCalls:
    """The calls of a method of a class and, if subclasses count (`in_subclasses`), of the methods that override it."""

    def __init__(self, owner: type, name: str, *, in_subclasses: bool = False) -> None:
        self._owner, self._name, self._in_subclasses = owner, name, in_subclasses
        self._lock = threading.RLock()
        self._listeners: tuple[MethodListener, ...] = ()
        self._replaced: list[ReplacedMethod] = []

    def listen(self, listener: MethodListener, undo: ExitStack) -> None:
        """Tell a listener of the calls, until everything is undone."""
        with self._lock:
            if not self._listeners:
                self._replace()
            self._listeners += (listener,)
        undo.callback(self._unlisten, listener)

    def _unlisten(self, listener: MethodListener) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other != listener)
            if not self._listeners:
                self._restore()

    def _replace(self) -> None:
        for owner in self._owners():
            original = vars(owner)[self._name]
            method = ReplacedMethod(owner, self._name, original, self._replacement_of(original))
            self._replaced.append(method)
            setattr(owner, self._name, method.replacement)

    def _restore(self) -> None:
        for method in self._replaced:
            method.restore()
        self._replaced.clear()

    def _owners(self) -> list[type]:
        """The classes whose method is replaced."""
        if self._in_subclasses:
            return list(overriding_classes(self._owner, self._name))
        return [self._owner]

    def _replacement_of(self, original: Method) -> Method:
        @wraps(original)
        def call(self_: Any, /, *args: Any, **kwargs: Any) -> Any:
            listeners = self._listeners
            for listener in listeners:
                listener.begin(self_, args, kwargs)
            try:
                return original(self_, *args, **kwargs)
            finally:
                for listener in listeners:
                    listener.end()

        return call


def overriding_classes(owner: type, name: str) -> Iterator[type]:
    """A class and its subclasses, as far as they define a method themselves."""
    if callable(vars(owner).get(name)):
        yield owner
    subclass: type
    for subclass in type.__subclasses__(owner):
        yield from overriding_classes(subclass, name)


mode_change = MethodCalls(nn.Module, "train")
parameter_assignment = MethodCalls(nn.Module, "register_parameter")
module_copy = MethodCalls(nn.Module, "__setstate__")  # of a copy, or of what was loaded from a file
optimizer_creation = MethodCalls(Optimizer, "__init__")
schedule_creation = MethodCalls(LRScheduler, "__init__")
loss_scaling = MethodCalls(GradScaler, "scale", in_subclasses=True)
