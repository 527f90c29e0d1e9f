"""The events that path patterns choose."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.event import Call, Event, Variable
from insitu.trace.path import Pattern


def select(events: Iterable[Event], only: str | Iterable[str] | None) -> list[Event]:
    """The calls of the modules whose path matches, everything inside them, their backward calls, and the calls around.

    Variables are chosen by their names in the same way. A pattern that matches neither a module nor a variable raises
    `PatternError` and names the nearest.
    """
    every = list(events)
    if not only:
        return every
    wanted = _wanted(every, [only] if isinstance(only, str) else list(only))
    inside: set[int] = set()
    chosen: list[Event] = []
    for event in every:
        is_inside = event.parent in inside
        if is_inside or _is_chosen(event, wanted, inside):
            inside.add(event.id)
        if event.id in inside and not is_inside:
            chosen.append(event)
    kept = inside | _around(every, chosen)
    return [event for event in every if event.id in kept]


def _wanted(events: list[Event], only: list[str]) -> set[str]:
    """The addresses that the patterns match."""
    addresses = {address for address in map(_address, events) if address is not None}
    patterns = [Pattern.of(text) for text in only]
    for pattern in patterns:
        pattern.require(addresses)
    return {address for pattern in patterns for address in filter(pattern.match, addresses)}


def _is_chosen(event: Event, wanted: set[str], inside: set[int]) -> bool:
    return _address(event) in wanted or (isinstance(event, Call) and event.forward in inside)


def _around(every: list[Event], chosen: list[Event]) -> set[int]:
    """The ids of all events around the chosen ones."""
    parents = {event.id: event.parent for event in every}
    around: set[int] = set()
    for event in chosen:
        above = event.parent
        while above is not None and above not in around:
            around.add(above)
            above = parents.get(above)
    return around


def _address(event: Event) -> str | None:
    """What a pattern names: the path of a module that is called, the name of a variable."""
    if isinstance(event, Variable):
        return event.name
    if isinstance(event, Call) and event.kind == "module":
        return event.path
    return None
