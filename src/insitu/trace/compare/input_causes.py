"""What goes into a pair of calls: whether it agrees, and if not, because of which earlier pairs it does not."""

from __future__ import annotations

from collections.abc import Container
from functools import reduce
from typing import NamedTuple

from insitu.trace.compare.closeness import CERTAINTIES, Certainty, Closeness, weakest
from insitu.trace.compare.evidence import TensorPair, TensorPairs
from insitu.trace.compare.ledger import NONE, CauseLedger, Link, Numbers, union
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.producers import Producer, Producers, distinct
from insitu.trace.event import Call, TensorFacts

Places = tuple[int, ...]
Pairs = tuple[Pair, ...]


class InputCauses(NamedTuple):
    """What is known of one input of a pair of calls, or of all of them.

    `causes` are the pairs because of which inputs differ, `faint` those because of which they are not quite the same,
    though close, and `suspects` those because of which they may differ unnoticed. `from_start` are the places of inputs
    that differ from the start, `rewired` of those that another call made, `unknown` of those of which nothing is known,
    and `is_outside` says that no recorded call made one of the unknown ones. `drift` is how far inputs are off within
    the tolerance, and `drifters` are the pairs in which that may have begun.
    """

    causes: Numbers = NONE
    faint: Numbers = NONE
    suspects: tuple[Pair, ...] = ()
    from_start: Places = ()
    rewired: Places = ()
    unknown: Places = ()
    is_outside: bool = False
    certainty: Certainty = "values"
    drift: float = 0.0
    drifters: Numbers = NONE

    @property
    def differs_from_start(self) -> bool:
        """Whether an input differs from the start, and no earlier pair explains a difference."""
        return bool(self.from_start) and not self.causes

    @property
    def are_suspect(self) -> bool:
        """Whether an input differs, or may differ unnoticed."""
        return bool(self.causes or self.suspects)

    @property
    def are_quiet(self) -> bool:
        """Whether nothing is known to differ; inputs may still be unknown, or come from a suspect."""
        return not any((self.causes, self.faint, self.from_start, self.rewired, self.drift))


# InputCauses that agree, and of which nothing is to be suspected: most of them.
AGREE: dict[Certainty, InputCauses] = {certainty: InputCauses(certainty=certainty) for certainty in CERTAINTIES}
NO_INPUTS = AGREE["values"]


def _all(found: list[InputCauses]) -> InputCauses:
    """What is known of all inputs, from what is known of each."""
    if len(found) == 1:
        return found[0]
    return reduce(_together, found)


def _together(one: InputCauses, other: InputCauses) -> InputCauses:
    """What is known of two inputs, or of some inputs and one more."""
    certainty = weakest(one.certainty, other.certainty)
    if one is AGREE[one.certainty] and other is AGREE[other.certainty]:
        return AGREE[certainty]
    return InputCauses(
        union(one.causes, other.causes),
        union(one.faint, other.faint),
        one.suspects + other.suspects,
        one.from_start + other.from_start,
        one.rewired + other.rewired,
        one.unknown + other.unknown,
        one.is_outside or other.is_outside,
        certainty,
        max(one.drift, other.drift),
        union(one.drifters, other.drifters),
    )


class InputLineage:
    """Follows inputs to the pairs that made them."""

    def __init__(self, producers: Producers, ledger: CauseLedger) -> None:
        self._producers = producers
        self._ledger = ledger
        self._first_user: dict[tuple[int, int], Pair] = {}
        self._doubted: dict[tuple[int, int], Closeness] = {}

    def doubt(self, pairs: TensorPairs) -> None:
        """Remember which of several tensors differ after all."""
        self._doubted |= {(id(pair.a), id(pair.b)): pair.closeness for pair in pairs if pair.closeness.same is False}

    def closeness(self, pair: TensorPair) -> Closeness:
        """How close two tensors are, after all that was found."""
        if not self._doubted:
            return pair.closeness
        return self._doubted.get((id(pair.a), id(pair.b)), pair.closeness)

    def inputs(self, pair: Pair, tensors: TensorPairs, *, unused: Container[int] = ()) -> InputCauses:
        """What is known of these tensors; `unused` are the places of those that the pair only passes on."""
        if not tensors:
            return NO_INPUTS
        return _all([self._input(pair, index, tensor, unused) for index, tensor in enumerate(tensors)])

    def passed_on(self, pair: Pair, tensors: TensorPairs) -> InputCauses:
        """What is known of tensors that a pair only passes on, such as what a module returns."""
        return self.inputs(pair, tensors, unused=range(len(tensors)))

    def _input(self, pair: Pair, index: int, tensor: TensorPair, unused: Container[int]) -> InputCauses:
        one, other = self._producers.of(0, tensor.a), self._producers.of(1, tensor.b)
        producers = distinct(one, other)
        if index not in unused:
            for producer in producers:
                self._ledger.used.add(producer.number)
        if self._producers.has_blank and self._is_blank(tensor):
            return NO_INPUTS
        closeness = self.closeness(tensor)
        if closeness.same is False:
            return self._differing(pair, index, tensor, (one, other), closeness)
        if closeness.same:
            return self._agreeing(tensor, producers, closeness)
        return self._unknown(index, tensor, (one, other))

    def _is_blank(self, tensor: TensorPair) -> bool:
        """Whether a tensor is memory as it was found, in one of the runs."""
        return self._producers.is_blank(0, tensor.a) or self._producers.is_blank(1, tensor.b)

    def _agreeing(self, tensor: TensorPair, producers: Pairs, closeness: Closeness) -> InputCauses:
        """An input that is the same, or close: what may still be wrong with it."""
        ledger = self._ledger
        links: list[Link] = []
        for producer in producers:
            ledger.agreed.add(producer.number)
            if producer.number in ledger.links:
                links.append(ledger.links[producer.number])
        if closeness.measure:
            return self._drifting(tensor, producers, closeness, links)
        if not links:  # as most often
            return AGREE[closeness.certainty]
        return _close_input(tensor, closeness, links)

    def _drifting(self, tensor: TensorPair, producers: Pairs, closeness: Closeness, links: list[Link]) -> InputCauses:
        """An input that is close, and not the same."""
        delta = closeness.delta or 0.0
        for producer in producers:
            self._ledger.add_drift(producer, delta)
        drifters = union(*[link.drifters for link in links])
        return _close_input(tensor, closeness, links)._replace(drift=delta, drifters=drifters)

    def _unknown(self, index: int, tensor: TensorPair, producers: tuple[Producer, Producer]) -> InputCauses:
        """An input of which only shape and dtype are known: it differs if what made it took what differs."""
        makers = distinct(*producers)
        rewired: Places = ()
        if _is_other_output(producers, tensor):
            rewired = (index,)
        return InputCauses(
            union(*[self._causes_of_unknown(producer) for producer in makers]),
            suspects=_suspects([self._ledger.link(producer) for producer in makers]),
            rewired=rewired,
            unknown=(index,),
            is_outside=not makers,
            certainty="structure",
        )

    def _causes_of_unknown(self, producer: Pair) -> Numbers:
        """Why an output may differ of which nothing is known; an output that was seen to agree does not."""
        causes = self._ledger.causes(producer)
        if causes or producer.number in self._ledger.agreed:
            return causes
        return self._ledger.link(producer).causes

    def _differing(
        self,
        pair: Pair,
        index: int,
        tensor: TensorPair,
        producers: tuple[Producer, Producer],
        closeness: Closeness,
    ) -> InputCauses:
        """An input that differs: because of the calls that made it, or because it is another one from the start."""
        one, other = producers
        if one is None and other is None:
            return self._given(pair, index, tensor, closeness)
        may_be_at_fault = self._made_this if one is other else self._made_something_else
        facts = (tensor.a, tensor.b)
        causes = NONE
        for producer in distinct(one, other):
            if may_be_at_fault(producer, tensor):
                causes = union(causes, self._ledger.blame(producer, closeness, facts))
        if causes:
            return InputCauses(causes, certainty=closeness.certainty)
        return InputCauses(rewired=(index,), certainty=closeness.certainty)

    def _made_something_else(self, producer: Pair, tensor: TensorPair) -> bool:
        """Whether one of two producers is known to make something else than the other run does."""
        return not producer.matched or producer.number in self._ledger.sightings

    def _made_this(self, producer: Pair, tensor: TensorPair) -> bool:
        """Whether the one producer of both tensors differs, or made them as the same output of both calls."""
        return producer.number in self._ledger.sightings or not _are_other_outputs(producer, tensor)

    def _given(self, pair: Pair, index: int, tensor: TensorPair, closeness: Closeness) -> InputCauses:
        """A tensor that no recorded call made: the first pair that it goes into is the one to name."""
        first = self._first_user.setdefault((id(tensor.a), id(tensor.b)), pair)
        if first is pair:
            return InputCauses(from_start=(index,), certainty=closeness.certainty)
        return InputCauses(self._ledger.causes(first), certainty=closeness.certainty)


def _close_input(tensor: TensorPair, closeness: Closeness, links: list[Link]) -> InputCauses:
    """An input that is close: the causes that it is not quite the same, and what may differ in it unnoticed."""
    faint = NONE
    if closeness.delta:
        faint = union(*[link.causes for link in links])
    if closeness.certainty == "values" and _has_same_form(tensor):
        return InputCauses(faint=faint)
    return InputCauses(faint=faint, suspects=_suspects(links), certainty=closeness.certainty)


def _suspects(links: list[Link]) -> Pairs:
    return tuple([link.suspect for link in links if link.suspect is not None])


def _has_same_form(tensor: TensorPair) -> bool:
    return tensor.a.dtype == tensor.b.dtype and tensor.a.shape == tensor.b.shape


def _is_other_output(producers: tuple[Producer, Producer], tensor: TensorPair) -> bool:
    """Whether two tensors come from pairs of calls, but not from the same place in the same pair."""
    one, other = producers
    if one is None or other is None:
        return False
    if not one.matched or not other.matched:
        return False
    return one is not other or _are_other_outputs(one, tensor)


def _are_other_outputs(producer: Pair, tensor: TensorPair) -> bool:
    """Whether these are two outputs of a pair of calls, but not the same one of both."""
    if not producer.a or not producer.b:
        return False
    first, second = producer.a[0].event, producer.b[0].event
    if type(first) is not Call or type(second) is not Call:
        return False
    if type(first.result) is TensorFacts:
        return False
    places_a, places_b = _places(first, tensor.a), _places(second, tensor.b)
    return bool(places_a and places_b) and places_a != places_b


def _places(call: Call, tensor: TensorFacts) -> list[int]:
    return [index for index, facts in enumerate(call.outputs) if facts is tensor]
