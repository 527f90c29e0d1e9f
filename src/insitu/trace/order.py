"""The order of events: as they ended, and as they came while the program ran."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from insitu.trace.event import Call, Event


def completion_order(events: Iterable[Event]) -> Iterator[Event]:
    """The events in the order they ended, children before parents, from the order they began.

    >>> outer, inner = Call(0, None, "module", "A"), Call(1, 0, "module", "B")
    >>> [call.name for call in completion_order([outer, inner])]
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
    """The events in the order in which the program produced them: each when it was complete. The call of a watched
    function comes when it begins as well, with the flag True.

    >>> from insitu.trace.event import Variable
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
    last, ends = _extents(every)
    starts = list(accumulate((event.start for event in every), max))
    found: dict[int, list[tuple[int, int, Call]]] = {}
    for index, event in enumerate(every):
        if type(event) is not Call:
            continue
        after = last[index] + 1
        is_followed = event.duration is not None and after < len(every)
        if is_followed and every[after].start > event.start:
            after = max(after, bisect_left(starts, ends[index]))
        found.setdefault(after, []).append((ends[index], -index, event))
    return {after: [call for *_, call in sorted(calls)] for after, calls in found.items()}


def _extents(every: list[Event]) -> tuple[list[int], list[int]]:
    """For each event, the number of the last event inside of it, and the time at which all of them have ended."""
    place = {event.id: index for index, event in enumerate(every)}
    last = list(range(len(every)))
    ends = [_end(event) for event in every]
    for index in reversed(range(len(every))):
        above = place.get(every[index].parent, index)  # type: ignore[arg-type]
        if above < index:
            last[above] = max(last[above], last[index])
            ends[above] = max(ends[above], ends[index])
    return last, ends


def _end(event: Event) -> int:
    if type(event) is Call:
        return event.start + (event.duration or 0)
    return event.start
