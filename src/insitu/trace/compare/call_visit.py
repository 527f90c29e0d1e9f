"""The causal pass at a pair of calls: is it a cause, does it follow from one, or is it the same?"""

from __future__ import annotations

from typing import NamedTuple

from insitu.trace.compare.change import SAME_MANNER, Change, Manner
from insitu.trace.compare.closeness import CERTAINTIES, Certainty, Closeness, weakest
from insitu.trace.compare.evidence import Evidence, has_nan, operand
from insitu.trace.compare.generators import draws
from insitu.trace.compare.input_causes import AGREE, InputCauses
from insitu.trace.compare.ledger import NONE, Account, Link, Numbers, joined
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.state import State
from insitu.trace.diff import CauseKind
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import Operation

# Pairs of which nothing differs, by what that is known from and by the size of the difference: zero or unknown.
_PLAIN = {
    (certainty, delta): Account(closeness=Closeness(True, certainty, delta))
    for certainty in CERTAINTIES
    for delta in (0.0, None)
}


class Visit(NamedTuple):
    """A pair of calls that the pass has come to, with all that is known of it; `call` is that of a."""

    pair: Pair
    call: Call
    evidence: Evidence
    inputs: InputCauses
    output: Closeness
    manner: Manner

    @property
    def operation(self) -> Operation:
        """What is known of the operation."""
        return self.pair.a[0].operation

    @property
    def itself(self) -> Numbers:
        """The pair as its own cause."""
        return frozenset((self.pair.number,))

    @property
    def certainty(self) -> Certainty:
        """What the comparison of inputs and output rests on."""
        return weakest(self.inputs.certainty, self.output.certainty)

    def operands(self, places: tuple[int, ...]) -> tuple[str, ...]:
        """The names of inputs."""
        operands = self.evidence.operands
        return tuple([operand(index, operands, self.operation, self.call.kwargs) for index in places])


def visit_call(state: State, pair: Pair, evidence: Evidence) -> None:
    """A pair of calls: what goes in, how they are made, what comes out."""
    call = pair.a[0].event
    assert type(call) is Call
    inputs = state.lineage.inputs(pair, evidence.inputs)
    state.producers.add(pair)
    output = state.output(evidence, doubts=bool(inputs.causes))
    state.cuts.follow(pair, evidence)
    if _is_plain(state, pair, evidence, inputs, output):
        _pass_by(state, pair, evidence, inputs, output)
    else:
        manner, causes = _manner(state, pair, call, evidence, inputs)
        if causes is not inputs.causes:
            inputs = inputs._replace(causes=causes)
        if pair.a[0].operation.runs_backward:
            inputs = state.go_backward(pair, evidence, inputs)
        decide(state, Visit(pair, call, evidence, inputs, output, manner))
        if state.raised is not None and not manner.raises:
            state.raised = None
    state.generators.follow(pair, output)


def _is_plain(state: State, pair: Pair, evidence: Evidence, inputs: InputCauses, output: Closeness) -> bool:
    """Whether nothing is known to differ, as most often; then there is nothing to decide."""
    if evidence.manner is not SAME_MANNER or output.same is False or output.measure or state.containers.around:
        return False
    operation = pair.a[0].operation
    if operation.draws == "order" or operation.runs_backward:
        return False
    return inputs is AGREE[inputs.certainty] or inputs.are_quiet


def _pass_by(state: State, pair: Pair, evidence: Evidence, inputs: InputCauses, output: Closeness) -> None:
    """Remember a pair of which nothing is known to differ; a suspect input may have changed it unnoticed."""
    ledger, number = state.ledger, pair.number
    ledger.accounts[number] = _PLAIN[weakest(inputs.certainty, output.certainty), output.delta]
    state.raised = None
    if output.same:
        ledger.agreed.add(number)
    if inputs.suspects:
        is_certain = output.same and output.certainty == "values"
        suspect = None if is_certain else _suspect_of_input(pair, evidence, inputs, output)
        ledger.links[number] = Link(suspect=suspect, has_suspect_input=True)


def _manner(state: State, pair: Pair, call: Call, evidence: Evidence, inputs: InputCauses) -> tuple[Manner, Numbers]:
    """How the calls are made, and the causes of their inputs.

    Arguments that came out of an earlier call that differs follow from it. An input that another call made, although
    nothing differs, is another tensor.
    """
    manner = evidence.manner
    if manner is SAME_MANNER and not inputs.rewired:
        return manner, inputs.causes
    arguments = [change for change in manner.changes if change.aspect == "argument"]
    followed = [state.numbers.causes_of(change.a, change.b) for change in arguments]
    causes = inputs.causes
    if followed and all(followed):
        causes = joined(causes, *followed)
        manner = manner._replace(changes=tuple([change for change in manner.changes if change not in arguments]))
    if inputs.rewired:
        names = [operand(index, evidence.operands, pair.a[0].operation, call.kwargs) for index in inputs.rewired]
        manner = manner._replace(changes=manner.changes + tuple([Change("other tensor", name) for name in names]))
    return manner, causes


def decide(state: State, visit: Visit) -> None:
    """Whether a pair of calls is a cause, follows, or is the same."""
    ledger, inputs, number = state.ledger, visit.inputs, visit.pair.number
    account = _account(state, visit)
    if inputs.given and not inputs.causes:
        account = differ_from_start(state, visit, account)
        ledger.links[number] = _link(inputs)
    elif visit.output.same is False or visit.manner.raises:
        account = _differ(state, visit, account)
        ledger.links[number] = _link(inputs)
    else:
        ledger.links[number] = _agree(state, visit)
        state.update(visit.pair, account)
    if inputs.unknown and ledger.causes(visit.pair) == visit.itself:
        account = account._replace(unknown=visit.operands(inputs.unknown))
    if visit.manner.is_reshaped:
        state.reshaped.append(visit.pair)
    ledger.accounts[number] = account


def _account(state: State, visit: Visit) -> Account:
    """What is to be said of a pair, unless it turns out to be a cause."""
    output, certainty, around = visit.output, visit.certainty, state.containers.around
    kind: CauseKind = "random" if visit.operation.draws == "order" else "output"
    closeness = Closeness(output.same, certainty, output.delta, output.measure)
    return Account(kind, closeness, visit.manner, (), visit.inputs.drift, around)


def _link(inputs: InputCauses) -> Link:
    """How a pair that differs hangs together with what came before it."""
    causes = joined(inputs.causes, inputs.faint)
    return Link(causes, inputs.causes, None, bool(inputs.causes or inputs.suspects))


def differ_from_start(state: State, visit: Visit, account: Account) -> Account:
    """A call that is given another tensor, which no call in the trace has made."""
    given = [visit.evidence.operands[index] for index in visit.inputs.given]
    causes = state.history.carried(visit.call, given)
    if not causes:
        causes = visit.itself
        account = account._replace(kind="input", manner=_manner_of_given(visit, given))
    state.sight(visit.pair, causes, account)
    if visit.output.same:
        state.ledger.agreed.add(visit.pair.number)
        _lose(state, visit, causes)
    return account


def _manner_of_given(visit: Visit, given: list[TensorFacts]) -> Manner:
    """The inputs that differ from the start, in place of all arguments."""
    changes = [Change("input", name) for name in visit.operands(visit.inputs.given)]
    changes += [change for change in visit.manner.changes if change.aspect == "exception"]
    layout = visit.manner.layout
    if visit.call.parent is not None and any(facts.type != "Parameter" for facts in given):
        layout += (Change("unrecorded"),)
    return Manner(tuple(changes), layout)


def _lose(state: State, visit: Visit, causes: Numbers) -> None:
    """Remember a difference that goes into a call and does not come out, if much may be lost in the call."""
    if causes and (visit.operation.decides or has_nan(visit.call)):
        state.history.inside |= causes


def _differ(state: State, visit: Visit, account: Account) -> Account:
    """An output that differs, or an exception: it follows from an earlier pair, or the pair is the cause."""
    pair, call = visit.pair, visit.call
    if state.raised is None and visit.manner.raises:
        state.raised = pair
    causes = _followed(state, visit)
    if not causes:
        causes = visit.itself
        account = account._replace(kind=_kind_of_cause(visit))
    state.sight(pair, causes, account)
    other = pair.b[0].event
    if type(other) is Call and type(call.result) is not TensorFacts and not call.outputs:
        state.numbers.add(call.result, other.result, causes)
    return account


def _followed(state: State, visit: Visit) -> Numbers:
    """The causes of an output that differs; none if the call itself is the cause."""
    inputs = visit.inputs
    if inputs.causes or visit.manner.changes:
        return inputs.causes
    found = state.drawn(visit.pair, visit.output) or inputs.faint or state.backward(visit.pair)
    if found:
        return found
    if visit.operation.reads_attribute and state.history.latest is not None:
        return state.history.causes_before()
    found = _unnoticed(state, visit)
    if found or not inputs.is_outside:
        return found
    return state.history.carried(visit.call, visit.evidence.operands)


def _unnoticed(state: State, visit: Visit) -> Numbers:
    """The causes of inputs that differ, and were not seen to: by statistics, or within the tolerance."""
    blamed: tuple[Pair, ...] | list[Pair] = visit.inputs.suspects
    if not blamed and not draws(visit.pair.a[0]):
        blamed = state.likely(visit.inputs.drifters)
    return joined(*[state.ledger.blame(suspect, visit.output, None, visit.pair) for suspect in blamed])


def _kind_of_cause(visit: Visit) -> CauseKind:
    """What kind of cause a call is whose output differs, and not because of what went into it."""
    if visit.manner.changes:
        if visit.manner.raises:
            return "raised"
        return "argument"
    is_given = visit.inputs.is_outside and visit.operation.is_move and len(visit.evidence.operands) == 1
    if is_given or visit.operation.reads_attribute:
        return "input"
    if draws(visit.pair.a[0]):
        return "random"
    return "output"


def _agree(state: State, visit: Visit) -> Link:
    """An output that is the same, or of which nothing is known: what may still be wrong with it.

    Values in another order have the same statistics, and still have them after a call with that tensor alone.
    """
    inputs, output, pair = visit.inputs, visit.output, visit.pair
    causes, drifters = joined(inputs.causes, inputs.faint), NONE
    has_suspect_input = bool(inputs.causes or inputs.suspects)
    if output.drifts:
        drifters = _drifters(visit)
        state.ledger.add_drift(pair, output.delta or 0.0)
    if output.same:
        _lose(state, visit, inputs.causes)
        state.ledger.agreed.add(pair.number)
        if output.certainty == "values" and not visit.manner.is_loose:
            causes = causes if output.drifts else NONE
            return Link(causes, inputs.causes, None, has_suspect_input, drifters)
    if visit.operation.draws == "order":
        causes = joined(causes, state.drawn(pair, output))
    return Link(causes, inputs.causes, _suspect(visit), has_suspect_input, drifters)


def _drifters(visit: Visit) -> Numbers:
    """The pairs in which a difference within the tolerance may have begun."""
    begins = bool(visit.manner.changes) or visit.manner.is_loose
    if begins:
        return joined(visit.inputs.drifters, visit.itself)
    return visit.inputs.drifters


def _suspect(visit: Visit) -> Pair | None:
    """The pair that may have changed an output although no difference was measured."""
    is_loose = visit.manner.is_loose
    if visit.operation.draws == "order" or visit.manner.changes or (is_loose and not visit.inputs.suspects):
        return visit.pair
    if is_loose:
        return visit.inputs.suspects[0]
    return _suspect_of_input(visit.pair, visit.evidence, visit.inputs, visit.output)


def _suspect_of_input(pair: Pair, evidence: Evidence, inputs: InputCauses, output: Closeness) -> Pair | None:
    """The suspect behind an input that still shows in the output: values in another order keep their statistics."""
    passes_on = output.same is None or len(evidence.operands) == 1 or pair.a[0].operation.is_move
    if inputs.suspects and passes_on:
        return inputs.suspects[0]
    return None
