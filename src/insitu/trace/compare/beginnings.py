"""The calls where a cause begins, in the run that makes them and in the run that does not."""

from __future__ import annotations

from functools import cached_property

from insitu.trace.compare.pairs import Pair, Stops
from insitu.trace.compare.stops import Side, Stop
from insitu.trace.diff import Compared
from insitu.trace.event import Call, TensorFacts

Leaving = tuple[TensorFacts, TensorFacts] | None


class Beginnings:
    """Finds where causes begin; `leaving` are the tensors by which a stretch of calls was found to differ."""

    def __init__(self, pairs: list[Pair], sides: tuple[Side, Side]) -> None:
        self._pairs = pairs
        self._within = (sides[0].within, sides[1].within)

    def beginning(self, pair: Pair, side: int, leaving: Leaving) -> Compared | None:
        """Where a cause begins on one side: of a stretch, the first call that leads to what differs."""
        stops = (pair.a, pair.b)[side]
        if not stops:
            return None
        if pair.matched or len(stops) == 1:
            return stops[0].event
        leading = stops if leaving is None else self._leading(stops, leaving[side], side)
        changing = [stop for stop in leading if not stop.operation.is_copy]
        return (changing or leading or stops)[0].event

    def _leading(self, stops: Stops, leaving: TensorFacts, side: int) -> list[Stop]:
        """The calls of a stretch through which a tensor came to be."""
        by_id = {stop.event.id: stop for stop in stops}
        waiting = [self._call(side, leaving)]
        found: set[int | None] = set()
        while waiting:
            number = waiting.pop()
            stop = by_id.get(number) if number is not None else None
            if stop is not None and number not in found and type(stop.event) is Call:
                found.add(number)
                waiting += [self._call(side, facts) for facts in stop.event.inputs]
        return [stop for stop in stops if stop.event.id in found]

    def _call(self, side: int, facts: TensorFacts) -> int | None:
        """The call that made a tensor, or the call around it that is compared."""
        producer = facts.producer
        if producer is None:
            return None
        return self._within[side].get(producer, producer)

    def instead(self, pair: Pair, leaving: Leaving) -> tuple[Compared, ...]:
        """Where the run goes on that lacks these calls: the call that made what it goes on with, and the next one."""
        if pair.a and pair.b:
            return ()
        side = 1 if pair.a else 0
        number = None if leaving is None else self._call(side, leaving[side])
        producer = None if number is None else self._events[side].get(number)
        following = self._following[side][pair.number]
        return tuple([event for event in (producer, following) if event is not None])

    @cached_property
    def _events(self) -> tuple[dict[int, Compared], dict[int, Compared]]:
        """The events of either side by their id."""
        a = {stop.event.id: stop.event for pair in self._pairs for stop in pair.a}
        return a, {stop.event.id: stop.event for pair in self._pairs for stop in pair.b}

    @cached_property
    def _following(self) -> tuple[list[Compared | None], list[Compared | None]]:
        """For each pair, the next event of either side after it that is not a beginning or an end."""
        return _next_events([pair.a for pair in self._pairs]), _next_events([pair.b for pair in self._pairs])


def _next_events(stops: list[Stops]) -> list[Compared | None]:
    found: list[Compared | None] = []
    following: Compared | None = None
    for here in reversed(stops):
        found.append(following)
        events = (stop.event for stop in here if stop.role in ("call", "variable"))
        following = next(events, following)
    found.reverse()
    return found
