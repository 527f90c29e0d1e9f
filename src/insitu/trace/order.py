"""The order of events: as they end, and as they are shown while the program runs."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import attrgetter

from insitu.trace.event import Call, Event


def completion_order(events: Iterable[Event]) -> Iterator[Event]:
    """The events in the order in which they ended, children before parents.

    >>> outer, inner = Call(0, None, "module", "A"), Call(1, 0, "module", "B")
    >>> [call.name for call in completion_order([outer, inner])]
    ['B', 'A']
    """
    children = children_by_parent(list(events))
    open_: list[tuple[Event | None, Iterator[Event]]] = [(None, iter(children.get(None, ())))]
    while open_:
        event, rest = open_[-1]
        following = next(rest, None)
        if following is not None:
            open_.append((following, iter(children.get(following.id, ()))))
            continue
        open_.pop()
        if event is not None:
            yield event


def children_by_parent(events: list[Event]) -> dict[int | None, list[Event]]:
    """The events directly inside each event, by its id; under None, those whose parent is not among the events."""
    known = {event.id for event in events}
    children: defaultdict[int | None, list[Event]] = defaultdict(list)
    for event in events:
        parent = event.parent if event.parent in known else None
        children[parent].append(event)
    return children


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
    """The calls by the index of the event before which they end.

    That is the first event after all events inside the call. By the clock it may be a later one: a generator that
    waits, or a call in another thread, is still open when the next event begins.
    """
    last, ends = _extents(every)
    starts = list(accumulate(map(attrgetter("start"), every), max))
    calls = [(ends[index], -index) for index, event in enumerate(every) if type(event) is Call]
    found: dict[int, list[Call]] = {}
    for end, place in sorted(calls):
        call = every[-place]
        assert type(call) is Call
        after = last[-place] + 1
        if _has_follower(call, every, after):
            after = max(after, bisect_left(starts, end))
        found.setdefault(after, []).append(call)
    return found


def _has_follower(call: Call, every: list[Event], after: int) -> bool:
    """Whether an event comes after a call, and by the clock, too, began after it."""
    if call.duration is None or after == len(every):
        return False
    return every[after].start > call.start


def _extents(every: list[Event]) -> tuple[list[int], list[int]]:
    """For each event, the index of the last event inside it, and the time at which all of them have ended."""
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
