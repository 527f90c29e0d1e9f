"""Which pairs are the cause of a difference, and which differ only because of what went into them.

The pairs of two runs are visited once, in the order of the run. A pair whose inputs agree and whose output does not is
a cause, as is one with another argument, or a stretch of calls that the other run lacks, once what comes out of it is
seen to differ. All that such a tensor goes into, and that differs, follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from insitu.trace.compare.call_visit import visit_call
from insitu.trace.compare.change import Change
from insitu.trace.compare.closeness import Closeness
from insitu.trace.compare.container_visit import visit_beginning, visit_end
from insitu.trace.compare.evidence import Comparison, Evidence
from insitu.trace.compare.ledger import Account, CauseLedger, Numbers, Sighting
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.producers import Producers
from insitu.trace.compare.state import State
from insitu.trace.compare.stops import Role, Side
from insitu.trace.compare.stretch_visit import visit_stretch
from insitu.trace.event import TensorFacts


class Causes(NamedTuple):
    """What the pass found.

    `results` are the causes that show in what the model returns, or in what goes backward; `inside` those that show in
    what a module within it returns, or whose effect is lost in a decision or in NaN. `cuts` says of pairs that cut a
    gradient off how they do so, and `leaving` are the tensors that show it.
    """

    ledger: CauseLedger
    producers: Producers
    results: Numbers
    inside: Numbers
    cuts: dict[int, Change]
    leaving: dict[int, tuple[TensorFacts, TensorFacts]]


def find_causes(
    pairs: list[Pair], evidence: list[Evidence | None], sides: tuple[Side, Side], comparison: Comparison
) -> Causes:
    """Go through the pairs once, and find for each that differs the causes because of which it does."""
    state = State(pairs, sides, comparison)
    for pair, known in zip(pairs, evidence, strict=True):
        if known is None:
            visit_stretch(state, pair, comparison)
        else:
            _VISITS[pair.a[0].role](state, pair, known)
        state.history.add(pair)
    for pair in state.reshaped:
        _blame_other_shape(state, pair)
    history, cuts = state.history, state.cuts
    return Causes(state.ledger, state.producers, history.results, history.inside, cuts.changes, cuts.leaving)


def _visit_variable(state: State, pair: Pair, evidence: Evidence) -> None:
    """A variable after it changed: it follows from what made its tensors, or from what differed before."""
    output = state.output(evidence)
    account = state.ledger.accounts[pair.number] = Account(closeness=output, around=state.containers.around)
    if output.same is not False:
        state.ledger.agreed.add(pair.number)
        return
    first = state.history.first
    before = state.ledger.causes(first) if first is not None else frozenset()
    causes = state.lineage.passed_on(pair, evidence.inputs).causes
    state.sight(pair, causes or before or frozenset((pair.number,)), account)


_VISITS: dict[Role, Callable[[State, Pair, Evidence], None]] = {
    "call": visit_call,
    "begin": visit_beginning,
    "end": visit_end,
    "variable": _visit_variable,
}


def _blame_other_shape(state: State, pair: Pair) -> None:
    """An output that no call uses has the same values in another shape: for whoever gets it, it is another result."""
    ledger = state.ledger
    if pair.number in ledger.used or pair.number in ledger.sightings:
        return
    suspect = ledger.link(pair).suspect or pair
    causes = ledger.blame(suspect, Closeness(False, "structure", measure="shape"))
    ledger.agreed.discard(pair.number)
    if suspect is not pair:
        account = ledger.account(pair)
        size = Closeness(False, account.closeness.certainty, None, "shape")
        ledger.sightings[pair.number] = Sighting(causes, account.kind, size)
