"""Which pair of calls made which tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.stops import Side
from insitu.trace.diff import Compared
from insitu.trace.event import Call, TensorFacts

Producer = Pair | None


class Producers:
    """The pairs that made the tensors of either run, as far as the runs have been followed.

    `has_blank` says that some of them are memory as it was found, which cannot be compared.
    """

    def __init__(self, a: Side, b: Side) -> None:
        self._within = (a.within, b.within)
        self._by_call: tuple[dict[int, Pair], dict[int, Pair]] = ({}, {})
        self._blank: tuple[set[int], set[int]] = (set(), set())
        self.has_blank = False

    def add(self, pair: Pair) -> None:
        """Note that the calls of this pair make tensors."""
        for side, stops in enumerate((pair.a, pair.b)):
            by_call = self._by_call[side]
            for stop in stops:
                by_call[stop.event.id] = pair
                operation = stop.operation
                is_blank = operation.family == "allocation"
                if operation.fills and not operation.overwrites:
                    is_blank = self._fills_blank(side, stop.event)
                if is_blank:
                    self._blank[side].add(stop.event.id)
                    self.has_blank = True

    def _fills_blank(self, side: int, call: Compared) -> bool:
        """Whether a call fills a part of memory that is as it was found."""
        if type(call) is not Call or not call.inputs:
            return False
        return self.is_blank(side, call.inputs[0])

    def is_blank(self, side: int, facts: TensorFacts) -> bool:
        """Whether a tensor is memory as it was found."""
        producer = facts.producer
        if producer is None:
            return False
        return self._within[side].get(producer, producer) in self._blank[side]

    def of(self, side: int, facts: TensorFacts) -> Producer:
        """The pair that made a tensor; None if the run was given it, or made it in a call that was not recorded."""
        producer = facts.producer
        if producer is None:
            return None
        return self._by_call[side].get(self._within[side].get(producer, producer))

    def inputs(self, side: int, calls: Iterable[Call], user: Pair) -> Iterator[tuple[TensorFacts, Pair]]:
        """The tensors that go into calls of this user and that an earlier pair made, each with that pair."""
        for call in calls:
            for facts in call.inputs:
                producer = self.of(side, facts)
                if producer is not None and producer is not user:
                    yield facts, producer

    def forward(self, side: int, call: Call) -> Producer:
        """The pair of the call whose gradient a backward call computes."""
        if call.forward is None:
            return None
        return self._by_call[side].get(self._within[side].get(call.forward, call.forward))


def distinct(one: Producer, other: Producer) -> tuple[Pair, ...]:
    """The pairs that made a tensor of a and its counterpart: most often one."""
    if one is not other:
        return tuple([producer for producer in (one, other) if producer is not None])
    if one is None:
        return ()
    return (one,)
