"""The causal pass at calls that only one run makes, or that the other run makes differently."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.compare.change import Change, Manner
from insitu.trace.compare.closeness import Closeness, worst
from insitu.trace.compare.evidence import Comparison
from insitu.trace.compare.ledger import NONE, Account, Link, Numbers, union
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.state import State
from insitu.trace.compare.stops import Stop, returned_input
from insitu.trace.event import Call, TensorFacts


def visit_stretch(state: State, pair: Pair, comparison: Comparison) -> None:
    """Calls that the other run does not make: what goes into them. What comes out shows where it is used."""
    state.producers.add(pair)
    link = state.ledger.links[pair.number] = _link(state, pair)
    state.cuts.follow_stretch(pair)
    state.generators.follow(pair)
    is_lone = not pair.a or not pair.b
    if state.raised is not None and is_lone:
        _follow_exception(state, pair, state.raised)
        return
    exception = _exception(pair)
    state.ledger.accounts[pair.number] = _account(state, exception)
    if exception is not None:
        state.ledger.blame(pair)
        state.raised = state.raised or pair
    elif pair.last:
        _end(state, pair, link, comparison)


def _follow_exception(state: State, pair: Pair, raised: Pair) -> None:
    """Calls that only one run makes because an exception has ended the other run."""
    account = state.ledger.accounts[pair.number] = _account(state)
    state.sight(pair, state.ledger.causes(raised), account)


def _exception(pair: Pair) -> str | None:
    """The first exception that ends a call of a stretch."""
    return next(filter(None, [call.raised for call in pair.calls_a + pair.calls_b]), None)


def _account(state: State, exception: str | None = None) -> Account:
    """What is to be said of a stretch, and of the exception that ends it."""
    if exception is None:
        return Account("calls", around=state.containers.around)
    manner = Manner((Change("raises", exception),))
    return Account("raised", manner=manner, around=state.containers.around)


def _link(state: State, pair: Pair) -> Link:
    """How the calls of a stretch hang together with what came before."""
    suspects: list[Pair] = []
    causes, drifters = NONE, frozenset((pair.number,))
    unused = _returned_inputs(pair.a + pair.b)
    if unused:
        state.ledger.used.add(pair.number)
    for side, calls in enumerate((pair.calls_a, pair.calls_b)):
        for facts, producer in state.producers.inputs(side, calls, pair):
            link = state.ledger.link(producer)
            if id(facts) not in unused:
                state.ledger.used.add(producer.number)
            drifters = union(drifters, link.drifters)
            if link.suspect is not None:
                suspects.append(link.suspect)
            if _may_differ(state, side, facts, producer):
                causes = union(causes, _causes(state, producer))
    causes = causes or state.backward(pair)
    return Link(causes, causes, _suspect(pair, suspects), bool(suspects), drifters)


def _returned_inputs(stops: Iterable[Stop]) -> set[int]:
    """The tensors that calls return as they are, by identity; none if one of the calls makes a result."""
    found: set[int] = set()
    for stop in stops:
        place, call = returned_input(stop), stop.event
        if place is None or type(call) is not Call:
            return set()
        found.add(id(call.inputs[place]))
    return found


def _may_differ(state: State, side: int, facts: TensorFacts, producer: Pair) -> bool:
    """Whether a tensor that goes into a stretch may differ in the other run."""
    if not producer.matched:
        return True
    if facts.stats is None and facts.kept is None:
        return True
    return id(facts) in state.different[side]


def _causes(state: State, producer: Pair) -> Numbers:
    """Why the output of a pair may differ, if it cannot be compared with that of the other run."""
    causes = state.ledger.causes(producer)
    if causes or not producer.matched:
        return causes
    return state.ledger.link(producer).causes


def _suspect(pair: Pair, suspects: list[Pair]) -> Pair | None:
    """The pair that may have changed what a stretch makes: the stretch, unless its calls leave values as they are."""
    if not all(stop.operation.is_copy for stop in pair.a + pair.b):
        return pair
    if suspects:
        return suspects[0]
    if any(map(_casts, pair.calls_a + pair.calls_b)):
        return pair
    return None


def _casts(call: Call) -> bool:
    """Whether a call gives its tensor another dtype."""
    return _dtypes(call.inputs) != _dtypes(call.outputs)


def _dtypes(tensors: Iterable[TensorFacts]) -> set[str]:
    return {facts.dtype for facts in tensors}


def _end(state: State, pair: Pair, link: Link, comparison: Comparison) -> None:
    """The last calls of a run: no call uses what they make, so it is compared here."""
    left, right = _leaving(pair.calls_a), _leaving(pair.calls_b)
    tensors = comparison.pairs(left, right)
    state.ledger.last_outputs += tensors
    found = [tensor.closeness for tensor in tensors]
    if len(left) != len(right) and link.suspect is pair:
        found.append(Closeness(False, "structure", measure="last call"))
    output = worst(found)
    if output.same is False:
        state.ledger.blame(pair, output)
    elif output.same:
        state.ledger.agreed.add(pair.number)
        account = state.ledger.account(pair)
        state.ledger.accounts[pair.number] = Account("calls", output, around=account.around)


def _leaving(calls: list[Call]) -> tuple[TensorFacts, ...]:
    """What a stretch of calls makes and does not use itself."""
    used: set[int] = set()
    outputs: list[TensorFacts] = []
    for call in calls:
        used.update(map(id, call.inputs))
        outputs += call.outputs
    return tuple([facts for facts in outputs if id(facts) not in used])
