"""The calls where a cause begins, in the run that makes them and in the run that does not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import chain

from insitu.trace.compare.pairs import Pair, Stops
from insitu.trace.compare.stops import Side, Stop, inputs
from insitu.trace.diff import Compared
from insitu.trace.event import Call, TensorFacts

Leaving = tuple[TensorFacts, TensorFacts] | None
MOST_PAIRS = 200  # after a stretch among which a call that takes its output is looked for


class Beginnings:
    """Finds where causes begin; `leaving` are the tensors by which a stretch of calls was found to differ."""

    def __init__(self, pairs: list[Pair], sides: tuple[Side, Side]) -> None:
        self._pairs = pairs
        self._within = (sides[0].within, sides[1].within)

    def leaving(self, pair: Pair, seen_at: Pair | None) -> Leaving:
        """What a stretch hands on, and what the other run has in its place; None if it may be one of several.

        `seen_at` is the later pair whose output shows the difference.
        """
        if pair.matched:
            return None
        if seen_at is not None:
            shown = self._handed_on(pair, [seen_at])
            if shown:
                return max(shown, key=_element_count)
        found = self._handed_on(pair, self._pairs[pair.number + 1 : pair.number + 1 + MOST_PAIRS])
        sides: tuple[list[TensorFacts], ...] = tuple(map(list, zip(*found, strict=True)))
        if any(len(set(map(id, tensors))) == 1 for tensors in sides):
            return found[0]
        return None

    def _handed_on(self, pair: Pair, later: list[Pair]) -> list[tuple[TensorFacts, TensorFacts]]:
        """The inputs of later pairs of calls that a stretch made, on one side or both."""
        makers_a, makers_b = set(map(_event_id, pair.a)), set(map(_event_id, pair.b))
        found: list[tuple[TensorFacts, TensorFacts]] = []
        for a, b in chain.from_iterable(map(_operands, filter(_is_call, later))):
            if self._call(0, a) in makers_a or self._call(1, b) in makers_b:
                found.append((a, b))
        return found

    def beginning(self, pair: Pair, side: int, leaving: Leaving) -> Compared | None:
        """Where a cause begins on one side: of a stretch, the first call that leads to what differs."""
        stops = (pair.a, pair.b)[side]
        if not stops:
            return None
        if len(stops) > 1:
            return self._beginning_of_stretch(stops, side, leaving).event
        return stops[0].event

    def _beginning_of_stretch(self, stops: Stops, side: int, leaving: Leaving) -> Stop:
        """The first of several calls that leads to what differs, and changes values."""
        leading = list(stops)
        if leaving is not None:
            leading = self._leading(stops, leaving[side], side) or leading
        changing = [stop for stop in leading if not stop.operation.is_copy]
        return (changing or leading)[0]

    def _leading(self, stops: Stops, leaving: TensorFacts, side: int) -> list[Stop]:
        """The calls of a stretch through which a tensor came to be."""
        by_id: dict[int | None, Call] = {}
        for stop in stops:
            if type(stop.event) is Call:
                by_id[stop.event.id] = stop.event
        found: set[int | None] = set()
        waiting = {self._call(side, leaving)}
        while waiting:
            number = waiting.pop()
            call = by_id.get(number)
            if call is not None:
                found.add(number)
                waiting.update([self._call(side, facts) for facts in inputs(call)])
                waiting -= found
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
        producer = self._producer(side, leaving)
        following = self._following[side][pair.number]
        return tuple([event for event in (producer, following) if event is not None])

    def _producer(self, side: int, leaving: Leaving) -> Compared | None:
        """The call that made the tensor with which a run goes on."""
        if leaving is None:
            return None
        number = self._call(side, leaving[side])
        if number is None:
            return None
        return self._events[side].get(number)

    @cached_property
    def _events(self) -> tuple[dict[int, Compared], dict[int, Compared]]:
        """The events of either side by their id."""
        return _events_by_id([pair.a for pair in self._pairs]), _events_by_id([pair.b for pair in self._pairs])

    @cached_property
    def _following(self) -> tuple[list[Compared | None], list[Compared | None]]:
        """For each pair, the next event of either side after it that is not a beginning or an end."""
        return _next_events([pair.a for pair in self._pairs]), _next_events([pair.b for pair in self._pairs])


def _event_id(stop: Stop) -> int:
    return stop.event.id


def _is_call(pair: Pair) -> bool:
    """Whether both runs make a call here, and it is not the beginning or the end of a container."""
    return pair.matched and pair.a[0].role == "call"


def _operands(pair: Pair) -> Iterator[tuple[TensorFacts, TensorFacts]]:
    """What goes into the calls of a pair, those of a beside those of b."""
    for a, b in zip(pair.calls_a, pair.calls_b, strict=False):
        yield from zip(inputs(a), inputs(b), strict=False)


def _element_count(tensors: tuple[TensorFacts, TensorFacts]) -> int:
    return math.prod(size for size in tensors[0].shape if isinstance(size, int))


def _events_by_id(stops: list[Stops]) -> dict[int, Compared]:
    return {stop.event.id: stop.event for stop in chain.from_iterable(stops)}


def _next_events(stops: list[Stops]) -> list[Compared | None]:
    """For each place, the first event of the places after it."""
    found: list[Compared | None] = []
    following: Compared | None = None
    for here in reversed(stops):
        found.append(following)
        for stop in reversed(here):
            if stop.role in ("call", "variable"):
                following = stop.event
    found.reverse()
    return found
