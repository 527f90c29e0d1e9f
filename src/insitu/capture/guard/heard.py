"""Methods of torch that a guard listens to: each is replaced while there are listeners.

None of them is on the hot path: a loss is scaled, a model changes its mode, an optimizer or a parameter is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

Method = Callable[..., Any]
# Gets the object whose method is called, and the arguments.
Listener = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


class HeardMethod:
    """Tells listeners that a method of a class begins; `overrides` says that those of its subclasses count, too."""

    def __init__(self, owner: type, name: str, *, overrides: bool = False) -> None:
        self._owner, self._name, self._overrides = owner, name, overrides
        self._lock = threading.RLock()
        self._listeners: tuple[Listener, ...] = ()
        self._replaced: list[tuple[type, Method, Method]] = []

    def listen(self, listener: Listener, undo: ExitStack) -> None:
        """Tell a listener of the calls, until everything is undone."""
        with self._lock:
            if not self._listeners:
                self._replace()
            self._listeners += (listener,)
        undo.callback(self._unlisten, listener)

    def _unlisten(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other != listener)
            if not self._listeners:
                self._restore()

    def _replace(self) -> None:
        for owner in self._owners():
            original = vars(owner)[self._name]
            replacement = self._replacement(original)
            self._replaced.append((owner, original, replacement))
            setattr(owner, self._name, replacement)

    def _restore(self) -> None:
        for owner, original, replacement in self._replaced:
            if vars(owner).get(self._name) is replacement:  # else somebody else has replaced it since
                setattr(owner, self._name, original)
        self._replaced.clear()

    def _owners(self) -> list[type]:
        """The classes that have a method of their own."""
        owners = [self._owner]
        if self._overrides:
            owners += subclasses(self._owner)
        return [owner for owner in owners if callable(vars(owner).get(self._name))]

    def _replacement(self, original: Method) -> Method:
        @wraps(original)
        def heard(self_: Any, /, *args: Any, **kwargs: Any) -> Any:
            for listener in self._listeners:
                listener(self_, args, kwargs)
            return original(self_, *args, **kwargs)

        return heard


def subclasses(kind: type) -> Iterable[type]:
    """Every class that inherits from a class."""
    other: type
    for other in type.__subclasses__(kind):
        yield other
        yield from subclasses(other)


loss_scaling = HeardMethod(GradScaler, "scale", overrides=True)
mode_change = HeardMethod(nn.Module, "train")
parameter_assignment = HeardMethod(nn.Module, "register_parameter")
optimizer_creation = HeardMethod(Optimizer, "__init__")
schedule_creation = HeardMethod(LRScheduler, "__init__")
