"""What a watched function tells of its variables, by both ways: printed at once, and recorded and decoded."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import insitu
from insitu import Call, Event, TensorFacts, Variable
from insitu.view import Line


class Listener:
    """A view that shows nothing and keeps the events."""

    def __init__(self) -> None:
        self.opened_calls: list[Call] = []
        self.events: list[Event] = []

    def begin(self) -> Iterable[Line]:
        return ()

    def opened(self, call: Call) -> Iterable[Line]:
        self.opened_calls.append(call)
        return ()

    def __call__(self, event: Event) -> Iterable[Line]:
        self.events.append(event)
        return ()

    def finish(self) -> Iterable[Line]:
        return ()


def heard(function: Callable[..., Any], *args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> list[Event]:
    """The events that a function makes when it prints by itself; what it raises is passed over."""
    listener = Listener()
    watched = insitu.watch(*names, view=listener, level="python", keep="meta", file=io.StringIO())(function)
    run(watched, *args, **kwargs)
    return listener.events


def recorded(function: Callable[..., Any], *args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> insitu.Trace:
    """The trace of a watched function in a session."""
    watched = insitu.watch(*names)(function)
    with insitu.record(level="python") as trace:
        run(watched, *args, **kwargs)
    return trace


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    with suppress(ZeroDivisionError):
        function(*args, **kwargs)


def told(events: Iterable[Event], first: int) -> list[tuple[str, Any, str, int]]:
    """Name, value, what changed and the line, counted from the `def`, of each change."""
    return [
        (event.name, shown(event.value), ", ".join(event.changes), event.site.line - first)
        for event in events
        if isinstance(event, Variable) and event.site is not None
    ]


def shown(value: Any) -> Any:
    """A value as it is compared in the tests: of a tensor what it looks like."""
    if isinstance(value, TensorFacts):
        return f"np {value!r}" if value.type == "ndarray" else repr(value)
    if isinstance(value, float) or type(value) is complex:
        return value if value == value else repr(value)
    if isinstance(value, (list, tuple)):
        return type(value)(shown(item) for item in value)
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    return value


def changes(function: Any, *args: Any, names: tuple[str, ...], again: Callable[[], Any] | None = None) -> Any:
    """What is told of the variables, which must be the same by both ways."""
    first = function.__code__.co_firstlineno
    live = told(heard(function, *args, names=names), first)
    later = told(recorded(function, *(again() if again else args), names=names).events, first)
    assert live == later, (live, later)
    return later
