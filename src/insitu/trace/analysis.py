"""The order of events and which of them are chosen: computed once, shared by all views."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from insitu.trace.event import Call, Event, Variable
from insitu.trace.path import Pattern


def completed(events: Iterable[Event]) -> Iterator[Event]:
    """The events in the order they ended, children before parents, from the order they began.

    >>> outer, inner = Call(0, None, "module", "A"), Call(1, 0, "module", "B")
    >>> [call.name for call in completed([outer, inner])]
    ['B', 'A']
    """
    every = list(events)
    known = {event.id for event in every}
    children: dict[int | None, list[Event]] = {}
    for event in every:
        children.setdefault(event.parent if event.parent in known else None, []).append(event)
    open_: list[tuple[Event | None, Iterator[Event]]] = [(None, iter(children.get(None, ())))]
    while open_:
        parent, rest = open_[-1]
        following = next(rest, None)
        if following is not None:
            open_.append((following, iter(children.get(following.id, ()))))
            continue
        open_.pop()
        if parent is not None:
            yield parent


def moments(events: Iterable[Event]) -> Iterator[tuple[Event, bool]]:
    """The events as they came while the program ran: each when it was complete, and the calls of watched functions
    also when they began, which the flag tells.

    >>> outer, inner = Call(0, None, "python", "f"), Variable(1, 0, "x", 1, ("new",))
    >>> [(event.id, begins) for event, begins in moments([outer, inner])]
    [(0, True), (1, False), (0, False)]
    """
    every = list(events)
    ending = _endings(every)
    for index, event in enumerate(every):
        for call in ending.get(index, ()):
            yield call, False
        if type(event) is not Call:
            yield event, False
        elif event.kind == "python":
            yield event, True
    for call in ending.get(len(every), ()):
        yield call, False


def _endings(every: list[Event]) -> dict[int, list[Call]]:
    """The calls by the number of the event before which they end.

    That is the first event after all that lies in the call. By the clock it may be a later one: a generator that
    waits, or a call in another thread, is still open when the next event begins.
    """
    place = {event.id: index for index, event in enumerate(every)}
    last = list(range(len(every)))
    ends = [event.start + (event.duration or 0) if type(event) is Call else event.start for event in every]
    for index in range(len(every) - 1, -1, -1):
        above = place.get(every[index].parent)  # type: ignore[arg-type]
        if above is not None and above < index:
            last[above] = max(last[above], last[index])
            ends[above] = max(ends[above], ends[index])
    starts = list(accumulate((event.start for event in every), max))
    found: dict[int, list[tuple[int, int, Call]]] = {}
    for index, event in enumerate(every):
        if type(event) is Call:
            after = last[index] + 1
            if event.duration is not None and after < len(every) and every[after].start > event.start:
                after = max(after, bisect_left(starts, ends[index]))
            found.setdefault(after, []).append((ends[index], -index, event))
    return {after: [call for *_, call in sorted(calls)] for after, calls in found.items()}


def select(events: Iterable[Event], only: str | Iterable[str] | None) -> list[Event]:
    """The calls of the modules whose path matches, all that lies in them, their backward calls, and all around these.

    Variables are chosen by their names in the same way. A pattern that matches neither a module nor a variable raises
    `PatternError` and names the nearest.
    """
    every = list(events)
    if not only:
        return every
    patterns = [only] if isinstance(only, str) else list(only)
    paths = dict.fromkeys(path for event in every if (path := _address(event)) is not None)
    for pattern in patterns:
        Pattern.of(pattern).require(paths)
    wanted = {path for path in paths if any(Pattern.of(pattern).match(path) for pattern in patterns)}
    parents = {event.id: event.parent for event in every}
    inside: set[int] = set()
    around: set[int] = set()
    for event in every:
        if event.parent in inside:
            inside.add(event.id)
        elif _address(event) in wanted or (isinstance(event, Call) and event.forward in inside):
            inside.add(event.id)
            above = event.parent
            while above is not None and above not in around and above in parents:
                around.add(above)
                above = parents[above]
    return [event for event in every if event.id in inside or event.id in around]


def _address(event: Event) -> str | None:
    """What a pattern names: the path of a module that is called, the name of a variable."""
    if isinstance(event, Variable):
        return event.name
    return event.path if isinstance(event, Call) and event.kind == "module" else None


def relative(path: str, base: str) -> str:
    """A path as seen from another one.

    >>> relative("h.0.attn", "h.0"), relative("head", ""), relative("wte", "head"), relative("h.0", "h.0")
    ('attn', 'head', 'wte', '')
    """
    if not base:
        return path
    if path.startswith(base) and (len(path) == len(base) or path[len(base)] == "."):
        return path[len(base) + 1 :]
    return path
