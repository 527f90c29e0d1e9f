"""The causal pass at calls that only one run makes, or that the other run makes differently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from insitu.trace.compare.change import Change, Manner
from insitu.trace.compare.closeness import Closeness, worst
from insitu.trace.compare.evidence import Comparison
from insitu.trace.compare.ledger import Account, Link, Numbers, joined
from insitu.trace.compare.pairs import Pair, Stops
from insitu.trace.compare.state import State
from insitu.trace.compare.stops import Stop
from insitu.trace.event import Call, TensorFacts


def visit_stretch(state: State, pair: Pair, comparison: Comparison) -> None:
    """Calls that the other run does not make: what goes into them. What comes out shows where it is used."""
    state.producers.add(pair)
    link = state.ledger.links[pair.number] = _link(state, pair)
    exceptions = [call.raised for call in pair.calls if call.raised]
    has_ended = state.raised is not None and not (pair.a and pair.b)
    is_raising = bool(exceptions) and not has_ended
    account = Account("calls", around=state.containers.around)
    if is_raising:
        account = Account("raised", manner=Manner((Change("raises", exceptions[0]),)), around=state.containers.around)
    state.ledger.accounts[pair.number] = account
    state.cuts.follow_stretch(pair)
    state.generators.follow(pair)
    if state.raised is not None and has_ended:  # by the exception in the other run
        state.sight(pair, state.ledger.causes(state.raised), account)
    elif is_raising:
        state.ledger.blame(pair)
        state.raised = state.raised or pair
    elif pair.last:
        _end(state, pair, link, comparison)


def _link(state: State, pair: Pair) -> Link:
    """How the calls of a stretch hang together with what came before."""
    fed = list(_inputs(state, pair))
    producers = [producer for producer, _ in fed]
    links = [state.ledger.link(producer) for producer in producers]
    state.ledger.used.update([producer.number for producer in producers])
    suspects = [link.suspect for link in links if link.suspect is not None]
    causes = joined(*[_causes(state, producer) for producer, differs in fed if differs]) or state.backward(pair)
    drifters = joined(frozenset((pair.number,)), *[link.drifters for link in links])
    return Link(causes, causes, _suspect(pair, suspects), bool(suspects), drifters)


def _inputs(state: State, pair: Pair) -> Iterator[tuple[Pair, bool]]:
    """The pairs that made what goes into a stretch, and whether that may differ in the other run."""
    for side, stops in enumerate((pair.a, pair.b)):
        for facts in _tensors_into(stops):
            producer = state.producers.of(side, facts)
            if producer is not None and producer is not pair:
                is_unknown = facts.stats is None and facts.kept is None
                yield producer, is_unknown or not producer.matched or id(facts) in state.different[side]


def _tensors_into(stops: Stops) -> list[TensorFacts]:
    return [facts for stop in stops if type(stop.event) is Call for facts in stop.event.inputs]


def _causes(state: State, producer: Pair) -> Numbers:
    """Why the output of a pair may differ, if it cannot be compared with that of the other run."""
    causes = state.ledger.causes(producer)
    if causes or not producer.matched:
        return causes
    return state.ledger.link(producer).causes


def _suspect(pair: Pair, suspects: list[Pair]) -> Pair | None:
    """The pair that may have changed what a stretch makes: the stretch, unless its calls leave values as they are."""
    every = pair.a + pair.b
    if not all(stop.operation.is_copy for stop in every):
        return pair
    if suspects:
        return suspects[0]
    if any(map(_casts, every)):
        return pair
    return None


def _casts(stop: Stop) -> bool:
    """Whether a call gives its tensor another dtype."""
    if type(stop.event) is not Call:
        return False
    return {facts.dtype for facts in stop.event.inputs} != {facts.dtype for facts in stop.event.outputs}


def _end(state: State, pair: Pair, link: Link, comparison: Comparison) -> None:
    """The last calls of a run: no call uses what they make, so it is compared here."""
    left, right = _leaving(pair.a), _leaving(pair.b)
    found = [tensor.closeness for tensor in comparison.pairs(left, right)]
    if len(left) != len(right) and link.suspect is pair:
        found.append(Closeness(False, "structure", measure="last call"))
    output = worst(found)
    if output.same is False:
        state.ledger.blame(pair, output)
    elif output.same:
        state.ledger.agreed.add(pair.number)
        account = state.ledger.account(pair)
        state.ledger.accounts[pair.number] = Account("calls", output, around=account.around)


def _leaving(stops: Iterable[Stop]) -> tuple[TensorFacts, ...]:
    """What a stretch of calls makes and does not use itself."""
    calls = [stop.event for stop in stops if type(stop.event) is Call]
    used = {id(facts) for call in calls for facts in call.inputs}
    return tuple([facts for call in calls for facts in call.outputs if id(facts) not in used])
