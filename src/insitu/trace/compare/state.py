"""What the causal pass carries along from pair to pair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from insitu.trace.compare.closeness import Closeness, worst
from insitu.trace.compare.cuts import Cuts, learns_unseen
from insitu.trace.compare.evidence import Comparison, Evidence, TensorPair
from insitu.trace.compare.generators import Generators, is_seeded
from insitu.trace.compare.input_causes import InputCauses, InputLineage
from insitu.trace.compare.ledger import NONE, Account, CauseLedger, Numbers, Sighting, union
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.past_differences import PastDifferences
from insitu.trace.compare.producers import Producers
from insitu.trace.compare.read_numbers import ReadNumbers
from insitu.trace.compare.stops import Side
from insitu.trace.event import Call


@dataclass(slots=True, eq=False)
class Containers:
    """The modules and watched functions that are running: the pairs where they begin, by the id of the call in a.

    `around` are those of them that are made differently, the outermost first.
    """

    beginnings: dict[int, Pair] = field(default_factory=dict)
    around: tuple[Pair, ...] = ()

    def end(self, call: int) -> Pair | None:
        """The pair where a call began that ends here."""
        begin = self.beginnings.get(call)
        if self.around:
            self.around = tuple([pair for pair in self.around if pair is not begin])
        return begin


class State:
    """The state of the causal pass: who made which tensor, what differs, what ends in an exception.

    `different` are the ids of the tensors of a, and of b, that were found to differ. `raised` is the pair whose
    exception is on its way, and `reshaped` are the pairs whose output has another shape.
    """

    def __init__(self, pairs: list[Pair], sides: tuple[Side, Side], comparison: Comparison) -> None:
        self.pairs = pairs
        self.ledger = CauseLedger()
        self.producers = Producers(*sides)
        self.lineage = InputLineage(self.producers, self.ledger)
        self.cuts = Cuts(self.producers, self.lineage, self.ledger)
        self.history = PastDifferences(self.ledger)
        self.containers = Containers()
        self.generators = Generators()
        self.numbers = ReadNumbers()
        self.different: tuple[set[int], set[int]] = (set(), set())
        self.raised: Pair | None = None
        self.reshaped: list[Pair] = []
        self._sides = sides
        self._comparison = comparison

    @cached_property
    def learns_unseen(self) -> bool:
        """Whether both runs went backward, and no call that did so was recorded."""
        return all(map(learns_unseen, self._sides))

    def output(self, evidence: Evidence, *, doubts: bool = False) -> Closeness:
        """How close the outputs of a pair are; with `doubts` statistics have to agree more closely."""
        output, outputs = evidence.output, evidence.outputs
        if doubts and output.drifts and output.certainty == "statistics":
            outputs = tuple(map(self._comparison.doubt, outputs))
            output = worst([tensor.closeness for tensor in outputs])
            self.lineage.doubt(outputs)
        if output.same is False:
            self._add_different(outputs)
        return output

    def _add_different(self, outputs: Iterable[TensorPair]) -> None:
        for tensor in outputs:
            if tensor.closeness.same is False:
                self.different[0].add(id(tensor.a))
                self.different[1].add(id(tensor.b))

    def sight(self, pair: Pair, causes: Numbers, account: Account) -> None:
        """Remember that a pair differs because of these causes."""
        known = self.ledger.sightings.get(pair.number)
        if known is not None and known.kind == "gradient":
            self.ledger.sightings[pair.number] = known._replace(causes=causes)
        else:
            self.ledger.sightings[pair.number] = Sighting(causes, account.kind, account.closeness)

    def update(self, pair: Pair, account: Account) -> None:
        """Give the sighting of a pair whose gradients differ the size of the difference in its output."""
        known = self.ledger.sightings.get(pair.number)
        if known is not None:
            self.sight(pair, known.causes, account)

    def causes_of_draw(self, pair: Pair, output: Closeness) -> Numbers:
        """The causes because of which a call draws other random numbers; none if no such cause was recorded."""
        moved = self.generators.moved(pair)
        if moved is not None:
            return self.ledger.blame(moved, output, None, pair)
        # A generator of its own is often seeded with a number that was drawn before, as that of a sampler is.
        if is_seeded(pair.a[0]):
            return self.numbers.causes
        return NONE

    def likely(self, drifters: Numbers) -> list[Pair]:
        """Those of several pairs that are off by the most within the tolerance; the others only round otherwise."""
        drift = {number: self.ledger.drift.get(number, 0.0) for number in sorted(drifters)}
        largest = max(drift.values(), default=0.0)
        return [self.pairs[number] for number, size in drift.items() if size >= largest / 10]

    def backward(self, pair: Pair) -> Numbers:
        """Why the forward calls differ whose gradients these backward calls compute."""
        causes = NONE
        for side, calls in enumerate((pair.calls_a, pair.calls_b)):
            for call in calls:
                causes = union(causes, self._backward(side, call))
        return causes

    def _backward(self, side: int, call: Call) -> Numbers:
        forward = self.producers.forward(side, call)
        causes = NONE if forward is None else self.ledger.causes(forward)
        if call.phase == "backward":
            return union(causes, self.cuts.causes)
        return causes

    def go_backward(self, pair: Pair, evidence: Evidence, inputs: InputCauses) -> InputCauses:
        """A backward pass begins: what differs in the loss, or is cut off from it, shows in the gradients."""
        cuts = self.cuts.behind(pair, evidence.inputs, evidence)
        if cuts:
            inputs = inputs._replace(causes=union(inputs.causes, self.cuts.reach_backward(cuts)))
            self.sight(pair, inputs.causes, Account())
        self.history.reach_results(inputs.causes)
        return inputs
