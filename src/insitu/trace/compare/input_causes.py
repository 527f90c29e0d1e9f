"""What goes into a pair of calls: whether it agrees, and if not, because of which earlier pairs it does not."""

from __future__ import annotations

from typing import NamedTuple

from insitu.trace.compare.closeness import CERTAINTIES, Certainty, Closeness, weakest
from insitu.trace.compare.evidence import TensorPair, TensorPairs
from insitu.trace.compare.ledger import NONE, CauseLedger, Numbers, joined
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.producers import Producer, Producers
from insitu.trace.event import Call, TensorFacts

Places = tuple[int, ...]


class InputCauses(NamedTuple):
    """What is known of one input of a pair of calls, or of all of them.

    `causes` are the pairs because of which inputs differ, `faint` those because of which they are not quite the same,
    though close, and `suspects` those because of which they may differ unnoticed. `given` are the places of inputs that
    differ from the start, `rewired` of those that another call made, `unknown` of those of which nothing is known, and
    `is_outside` says that no recorded call made one of the unknown ones. `drift` is how far inputs are off within the
    tolerance, and `drifters` are the pairs in which that may have begun.
    """

    causes: Numbers = NONE
    faint: Numbers = NONE
    suspects: tuple[Pair, ...] = ()
    given: Places = ()
    rewired: Places = ()
    unknown: Places = ()
    is_outside: bool = False
    certainty: Certainty = "values"
    drift: float = 0.0
    drifters: Numbers = NONE

    @property
    def are_quiet(self) -> bool:
        """Whether nothing is known to differ; inputs may still be unknown, or come from a suspect."""
        return not any((self.causes, self.faint, self.given, self.rewired, self.drift))


# InputCauses that agree, and of which nothing is to be suspected: most of them.
AGREE: dict[Certainty, InputCauses] = {certainty: InputCauses(certainty=certainty) for certainty in CERTAINTIES}
NO_INPUTS = AGREE["values"]


def _all(found: list[InputCauses]) -> InputCauses:
    """What is known of all inputs, from what is known of each."""
    if len(found) == 1:
        return found[0]
    certainty = weakest(*[one.certainty for one in found])
    if all(one is AGREE[one.certainty] for one in found):
        return AGREE[certainty]
    return InputCauses(
        joined(*[one.causes for one in found]),
        joined(*[one.faint for one in found]),
        sum([one.suspects for one in found], ()),
        sum([one.given for one in found], ()),
        sum([one.rewired for one in found], ()),
        sum([one.unknown for one in found], ()),
        any(one.is_outside for one in found),
        certainty,
        max(one.drift for one in found),
        joined(*[one.drifters for one in found]),
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

    def inputs(self, pair: Pair, tensors: TensorPairs, *, uses: bool = True) -> InputCauses:
        """What is known of these tensors; with `uses` off the pair does not use them, it only passes them on."""
        if not tensors:
            return NO_INPUTS
        return _all([self._input(pair, index, tensor, uses) for index, tensor in enumerate(tensors)])

    def _input(self, pair: Pair, index: int, tensor: TensorPair, uses: bool) -> InputCauses:
        one, other = self._producers.of(0, tensor.a), self._producers.of(1, tensor.b)
        made_by = _distinct(one, other)
        if uses:
            for producer in made_by:
                self._ledger.used.add(producer.number)
        if self._producers.blank and any(producer.number in self._producers.blank for producer in made_by):
            return NO_INPUTS
        closeness = self.closeness(tensor)
        if closeness.same is False:
            return self._differing(pair, index, tensor, (one, other), closeness)
        if closeness.same:
            return self._agreeing(tensor, made_by, closeness)
        return self._unknown(index, tensor, (one, other), made_by)

    def _agreeing(self, tensor: TensorPair, made_by: tuple[Pair, ...], closeness: Closeness) -> InputCauses:
        """An input that is the same, or close: what may still be wrong with it."""
        ledger = self._ledger
        for producer in made_by:
            ledger.agreed.add(producer.number)
        drifts = closeness.measure != ""
        links = [ledger.links[producer.number] for producer in made_by if producer.number in ledger.links]
        if not drifts and not links:  # as most often
            return AGREE[closeness.certainty]
        is_exact = closeness.certainty == "values" and _has_same_form(tensor)
        faint = joined(*[link.causes for link in links]) if closeness.delta else NONE
        suspects = () if is_exact else tuple([link.suspect for link in links if link.suspect is not None])
        if not drifts:
            return InputCauses(faint=faint, suspects=suspects, certainty=closeness.certainty)
        delta = closeness.delta or 0.0
        for producer in made_by:
            ledger.add_drift(producer, delta)
        drifters = joined(*[link.drifters for link in links])
        return InputCauses(NONE, faint, suspects, certainty=closeness.certainty, drift=delta, drifters=drifters)

    def _unknown(
        self, index: int, tensor: TensorPair, producers: tuple[Producer, Producer], made_by: tuple[Pair, ...]
    ) -> InputCauses:
        """An input of which only shape and dtype are known: it differs if what made it took what differs."""
        one, other = producers
        causes = joined(*[self._causes_of_unknown(producer) for producer in made_by])
        suspects = [self._ledger.link(producer).suspect for producer in made_by]
        is_rewired = one is not None and other is not None and _is_other_output(one, other, tensor)
        return InputCauses(
            causes,
            suspects=tuple([suspect for suspect in suspects if suspect is not None]),
            rewired=(index,) if is_rewired else (),
            unknown=(index,),
            is_outside=not made_by,
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
        facts = (tensor.a, tensor.b)
        if one is not other:
            at_fault = [producer for producer in _distinct(one, other) if self._is_at_fault(producer)]
            causes = joined(*[self._ledger.blame(producer, closeness, facts) for producer in at_fault])
        elif one is None:
            return self._given(pair, index, tensor, closeness)
        else:
            causes = NONE if self._is_unlike(one, facts) else self._ledger.blame(one, closeness, facts)
        if causes:
            return InputCauses(causes, certainty=closeness.certainty)
        return InputCauses(rewired=(index,), certainty=closeness.certainty)

    def _is_at_fault(self, producer: Pair) -> bool:
        """Whether one of two producers is known to make something else than the other run does."""
        return not producer.matched or producer.number in self._ledger.sightings

    def _is_unlike(self, producer: Pair, facts: tuple[TensorFacts, TensorFacts]) -> bool:
        """Whether a pair that is not known to differ made these two tensors, but not as the same output of both."""
        return producer.number not in self._ledger.sightings and _are_other_outputs(producer, facts)

    def _given(self, pair: Pair, index: int, tensor: TensorPair, closeness: Closeness) -> InputCauses:
        """A tensor that no recorded call made: the first pair that it goes into is the one to name."""
        first = self._first_user.setdefault((id(tensor.a), id(tensor.b)), pair)
        if first is pair:
            return InputCauses(given=(index,), certainty=closeness.certainty)
        return InputCauses(self._ledger.causes(first), certainty=closeness.certainty)


def _distinct(one: Producer, other: Producer) -> tuple[Pair, ...]:
    """The pairs that made a tensor of a and its counterpart: most often one."""
    if one is other:
        if one is None:
            return ()
        return (one,)
    return tuple([producer for producer in (one, other) if producer is not None])


def _has_same_form(tensor: TensorPair) -> bool:
    return tensor.a.dtype == tensor.b.dtype and tensor.a.shape == tensor.b.shape


def _is_other_output(one: Pair, other: Pair, tensor: TensorPair) -> bool:
    """Whether two tensors come from pairs that belong together, but not from the same place in them."""
    if not (one.matched and other.matched):
        return False
    return one is not other or _are_other_outputs(one, (tensor.a, tensor.b))


def _are_other_outputs(producer: Pair, facts: tuple[TensorFacts, TensorFacts]) -> bool:
    """Whether these are two outputs of a pair of calls, but not the same one of both."""
    first = producer.a[0].event if producer.a else None
    second = producer.b[0].event if producer.b else None
    if type(first) is not Call or type(second) is not Call or type(first.result) is TensorFacts:
        return False
    places_a, places_b = _places(first, facts[0]), _places(second, facts[1])
    return bool(places_a and places_b) and places_a != places_b


def _places(call: Call, tensor: TensorFacts) -> list[int]:
    return [index for index, facts in enumerate(call.outputs) if facts is tensor]
