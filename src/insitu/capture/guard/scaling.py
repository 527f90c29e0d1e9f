"""Whether losses are scaled for half precision: then gradients may overflow, for the optimizer leaves that step out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Protocol

from torch.amp.grad_scaler import GradScaler

Scale = Callable[..., Any]


class Listener(Protocol):
    """Hears of losses that are scaled."""

    def begin_scaling(self) -> None:
        """A loss is about to be scaled."""

    def end_scaling(self) -> None:
        """The loss was scaled, or an exception ended that."""


class Scaling:
    """Tells listeners that a `GradScaler` scales a loss; its method is another one as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._listeners: tuple[Listener, ...] = ()
        self._replaced: list[tuple[type, Scale, Scale]] = []

    def begin(self, listener: Listener) -> None:
        """Tell a listener from now on."""
        with self._lock:
            if not self._listeners:
                self._replaced = [(kind, vars(kind)["scale"], self._telling(vars(kind)["scale"])) for kind in kinds()]
                for kind, _, telling in self._replaced:
                    kind.scale = telling  # type: ignore[attr-defined]
            self._listeners += (listener,)

    def end(self, listener: Listener) -> None:
        """Tell it no more."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
            if not self._listeners:
                for kind, original, telling in self._replaced:
                    if vars(kind).get("scale") is telling:  # else somebody else has replaced it since
                        kind.scale = original  # type: ignore[attr-defined]
                self._replaced.clear()

    def _telling(self, scale: Scale) -> Scale:
        @wraps(scale)
        def telling(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            listeners = self._listeners if scaler.is_enabled() else ()
            for listener in listeners:
                listener.begin_scaling()
            try:
                return scale(scaler, *args, **kwargs)
            finally:
                for listener in listeners:
                    listener.end_scaling()

        return telling


def kinds(kind: type = GradScaler) -> Iterator[type]:
    """The classes of scalers that have a way of their own to scale."""
    if callable(vars(kind).get("scale")):
        yield kind
    other: type
    for other in type.__subclasses__(kind):
        yield from kinds(other)


scaling = Scaling()
