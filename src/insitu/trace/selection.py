"""The events that path patterns choose."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

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
    patterns = [only] if isinstance(only, str) else list(only)
    inside = _inside(every, _matching_addresses(every, patterns))
    chosen = inside | _around(every, inside)
    return [event for event in every if event.id in chosen]


def _matching_addresses(events: list[Event], patterns: list[str]) -> set[str | None]:
    """The addresses that the patterns match."""
    addresses = set(map(_address, events))
    named = {address for address in addresses if address is not None}
    found = [Pattern.of(text).matches(named) for text in patterns]
    return set(chain.from_iterable(found))


def _inside(every: list[Event], addresses: set[str | None]) -> set[int]:
    """The ids of the events at the addresses, of all events inside them, and of their backward calls."""
    inside: set[int] = set()
    for event in every:
        sources = (event.parent, getattr(event, "forward", None))
        if _address(event) in addresses or not inside.isdisjoint(sources):
            inside.add(event.id)
    return inside


def _around(every: list[Event], inside: set[int]) -> set[int]:
    """The ids of all events around others: parents come before their children."""
    around: set[int] = set()
    for event in reversed(every):
        is_chosen = event.id in inside or event.id in around
        if is_chosen and event.parent is not None:
            around.add(event.parent)
    return around


def _address(event: Event) -> str | None:
    """The text that a pattern matches: the path of a module that is called, the name of a variable."""
    if isinstance(event, Variable):
        return event.name
    if isinstance(event, Call) and event.kind == "module":
        return event.path
    return None
