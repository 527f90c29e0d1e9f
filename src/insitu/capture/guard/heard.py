"""Methods of torch that a guard listens to: each is replaced while there are listeners.

None of them is on the hot path: a model changes its mode, a parameter, an optimizer or a schedule is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

Method = Callable[..., Any]
Trouble = Callable[[str, Exception], None]


@dataclass(frozen=True, slots=True)
class MethodListener:
    """Hears of calls: `hear` gets the object whose method is called, and the arguments; `trouble` gets its errors."""

    hear: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
    trouble: Trouble

    def tell(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Tell it of a call."""
        try:
            self.hear(instance, args, kwargs)
        except Exception as error:
            self.trouble("listening to torch", error)


class HeardMethod:
    """Tells listeners that a method of a class begins."""

    def __init__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name
        self._lock = threading.RLock()
        self._listeners: tuple[MethodListener, ...] = ()
        self._original: Method | None = None
        self._replacement: Method | None = None

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
        self._original = vars(self._owner)[self._name]
        self._replacement = self._telling(self._original)
        setattr(self._owner, self._name, self._replacement)

    def _restore(self) -> None:
        if vars(self._owner).get(self._name) is self._replacement:  # else somebody else has replaced it since
            setattr(self._owner, self._name, self._original)
        self._original = self._replacement = None

    def _telling(self, original: Method) -> Method:
        @wraps(original)
        def heard(self_: Any, /, *args: Any, **kwargs: Any) -> Any:
            for listener in self._listeners:
                listener.tell(self_, args, kwargs)
            return original(self_, *args, **kwargs)

        return heard


mode_change = HeardMethod(nn.Module, "train")
parameter_assignment = HeardMethod(nn.Module, "register_parameter")
module_copy = HeardMethod(nn.Module, "__setstate__")  # of a copy, or of what was loaded from a file
optimizer_creation = HeardMethod(Optimizer, "__init__")
schedule_creation = HeardMethod(LRScheduler, "__init__")
