"""Where a gradient is cut off in one run only: a `detach`, a call under `no_grad`, a parameter that is frozen.

Values do not show it. The tensor itself does: `requires_grad` is True in one run and False in the other. That has an
effect if what is made of the tensor reaches a backward pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from insitu.trace.compare.change import Change
from insitu.trace.compare.evidence import Evidence, TensorPair, TensorPairs, operand
from insitu.trace.compare.input_causes import InputLineage
from insitu.trace.compare.ledger import NO_ACCOUNT, NONE, CauseLedger, Numbers, Sighting, union
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.producers import Producers, distinct
from insitu.trace.compare.stops import Side, Stop
from insitu.trace.event import Call, TensorFacts


class Cuts:
    """Follows tensors through which a gradient passes in one run and not in the other.

    `changes` says of each pair that cuts a gradient off how it does so, and `leaving` are the tensors that show it.
    `causes` are those of the latest backward pass that a cut has reached.
    """

    def __init__(self, producers: Producers, lineage: InputLineage, ledger: CauseLedger) -> None:
        self._producers, self._lineage, self._ledger = producers, lineage, ledger
        self.changes: dict[int, Change] = {}
        self.leaving: dict[int, tuple[TensorFacts, TensorFacts]] = {}
        self.causes = NONE
        self._behind: dict[int, Numbers] = {}
        self._has_any = False

    def follow(self, pair: Pair, evidence: Evidence) -> None:
        """Remember which cuts are behind the output of a pair of calls."""
        if not self._has_any:
            if _require_alike(evidence.inputs) and _require_alike(evidence.outputs):  # as most often
                return
            self._has_any = True
        found = self.behind(pair, evidence.inputs, evidence)
        if evidence.outputs and not any(map(_requires, evidence.outputs)):
            return  # no gradient passes in either run
        found = found or self._begin(pair, evidence.outputs)
        if found:
            self._behind[pair.number] = found

    def follow_stretch(self, pair: Pair) -> None:
        """Remember which cuts are behind the output of calls that the other run does not make."""
        if not self._behind:
            return
        found: list[Numbers] = []
        for side, calls in enumerate((pair.calls_a, pair.calls_b)):
            for facts, producer in self._producers.inputs(side, calls, pair):
                if facts.requires_grad:
                    found.append(self._behind.get(producer.number, NONE))
        self._behind[pair.number] = union(*found)

    def behind(self, pair: Pair, tensors: TensorPairs, evidence: Evidence) -> Numbers:
        """The cuts behind tensors that go into a pair of calls, those that begin with them among these."""
        found = NONE
        for index, tensor in enumerate(tensors):
            if _requires(tensor):
                found = union(found, self._behind_input(pair, index, tensor, evidence))
        return found

    def _behind_input(self, pair: Pair, index: int, tensor: TensorPair, evidence: Evidence) -> Numbers:
        producers = distinct(self._producers.of(0, tensor.a), self._producers.of(1, tensor.b))
        known = union(*[self._behind.get(producer.number, NONE) for producer in producers])
        if known or _requires_alike(tensor):
            return known
        if self._lineage.closeness(tensor).same is False:  # another tensor: its values are the difference
            return NONE
        if not producers:
            return self._cut(pair, tensor, operand(index, evidence.operands, pair.a[0].operation, {}))
        return self._cut_by_stretch(producers, tensor)

    def _cut_by_stretch(self, producers: Iterable[Pair], tensor: TensorPair) -> Numbers:
        """The cut by calls that only one run makes, if such calls made a tensor."""
        for producer in producers:
            if not producer.matched:
                self.leaving[producer.number] = (tensor.a, tensor.b)
                return self._cut(producer, tensor)
        return NONE

    def _begin(self, pair: Pair, outputs: TensorPairs) -> Numbers:
        """The pair itself, if inputs agree in whether they require a gradient, and outputs do not."""
        for tensor in outputs:
            if not _requires_alike(tensor):
                return self._cut(pair, tensor)
        return NONE

    def _cut(self, pair: Pair, tensor: TensorPair, name: str = "") -> Numbers:
        """Remember that a pair cuts a gradient off."""
        self.changes[pair.number] = Change("requires_grad", name, tensor.a.requires_grad, tensor.b.requires_grad)
        return frozenset((pair.number,))

    def reach_backward(self, cuts: Numbers) -> Numbers:
        """The causes of other gradients, after a backward pass that cuts have reached: from here on they are causes."""
        ledger = self._ledger
        for number in cuts - ledger.sightings.keys():
            found = ledger.accounts.get(number, NO_ACCOUNT).closeness
            size = found._replace(same=False, certainty="structure")
            ledger.sightings[number] = Sighting(frozenset((number,)), "gradient", size, self.leaving.get(number))
        self.causes = union(*[ledger.sightings[number].causes for number in cuts])
        return self.causes


def _requires(tensor: TensorPair) -> bool:
    """Whether a gradient passes through a tensor in one of the runs."""
    return tensor.a.requires_grad or tensor.b.requires_grad


def _requires_alike(tensor: TensorPair) -> bool:
    return tensor.a.requires_grad is tensor.b.requires_grad


def _require_alike(tensors: TensorPairs) -> bool:
    """Whether tensors agree in whether they require a gradient."""
    return all(map(_requires_alike, tensors))


def learns_unseen(side: Side) -> bool:
    """Whether a run went backward, as gradients show, and no call that did so was recorded."""
    stops = list(chain.from_iterable(side.groups.values()))
    if any(stop.operation.runs_backward for stop in stops):
        return False
    return any(map(_has_gradient, stops))


def _has_gradient(stop: Stop) -> bool:
    call = stop.event
    if type(call) is not Call:
        return False
    return any(facts.grad is not None for facts in (*call.outputs, *call.inputs))
