"""What has differed so far, and which of it may have come to tensors whose origin was not recorded."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.compare.ledger import NONE, CauseLedger, Numbers
from insitu.trace.compare.pairs import Pair
from insitu.trace.event import Call, TensorFacts


class PastDifferences:
    """The differences up to a place in the run.

    `first` and `latest` are pairs that differ. `results` are the causes that have shown in what the model returns, or
    in what goes backward, `inside` those that have shown in what a module within it returns, or whose effect was lost
    in a decision or in NaN.
    """

    def __init__(self, ledger: CauseLedger) -> None:
        self._ledger = ledger
        self.first: Pair | None = None
        self.latest: Pair | None = None
        self.results: Numbers = NONE
        self.inside: Numbers = NONE
        self._has_results = False

    def add(self, pair: Pair) -> None:
        """Remember a pair that the pass has visited, if it differs."""
        if pair.number in self._ledger.sightings:
            self.latest = pair
            self.first = self.first or pair

    def reach_results(self, causes: Numbers) -> None:
        """Remember the causes because of which the model returns something else, or something else goes backward."""
        self._has_results = True
        self.results |= causes

    def causes_before(self) -> Numbers:
        """The causes that have shown in results; where no results were seen, those of the latest difference."""
        if self._has_results:
            return self.results or self.inside
        if self.latest is None:
            return NONE
        return self._ledger.causes(self.latest)

    def carried(self, call: Call, facts: Iterable[TensorFacts]) -> Numbers:
        """The causes of tensors that no recorded call made, if an earlier difference may have come to them."""
        if self._may_carry(call, facts):
            return self.causes_before()
        return NONE

    def _may_carry(self, call: Call, facts: Iterable[TensorFacts]) -> bool:
        """Whether tensors may differ because of an earlier difference; parameters only since an earlier step."""
        if self.first is None:
            return False
        began = (*self.first.a, *self.first.b)[0].event.step
        if call.step != began:  # an optimizer has been at work since
            return True
        is_opaque = call.kind in ("module", "python") or call.parent is None
        return is_opaque and any(tensor.type != "Parameter" for tensor in facts)
