"""The causal pass at a pair of calls: is it a cause, does it follow from one, or is it the same?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from insitu.trace.compare.change import SAME_MANNER, Change, Manner
from insitu.trace.compare.closeness import CERTAINTIES, Certainty, Closeness, weakest
from insitu.trace.compare.evidence import Evidence, TensorPair, has_nan, operand
from insitu.trace.compare.generators import draws
from insitu.trace.compare.input_causes import AGREE, InputCauses
from insitu.trace.compare.ledger import NONE, Account, Link, Numbers, union
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.state import State
from insitu.trace.compare.stops import returned_input
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
    echo = _returned_inputs(pair)
    inputs = state.lineage.inputs(pair, evidence.inputs, unused=echo)
    if echo:
        state.ledger.used.add(pair.number)
    state.producers.add(pair)
    output = state.output(evidence, doubts=bool(inputs.causes))
    state.cuts.follow(pair, evidence)
    if _is_plain(state, pair, evidence, inputs, output):
        _pass_by(state, pair, evidence, inputs, output)
    else:
        _visit_difference(state, pair, call, evidence, inputs, output)
    state.generators.follow(pair, output)


def _returned_inputs(pair: Pair) -> tuple[int, ...]:
    """The place of the input that both calls return as it is, if they do: they make no result."""
    place, other = returned_input(pair.a[0]), returned_input(pair.b[0])
    if place is None or place != other:
        return ()
    return (place,)


def _visit_difference(
    state: State, pair: Pair, call: Call, evidence: Evidence, inputs: InputCauses, output: Closeness
) -> None:
    """A pair of calls of which something may differ."""
    manner, causes = _manner(state, pair, call, evidence, inputs)
    if causes is not inputs.causes:
        inputs = inputs._replace(causes=causes)
    if pair.a[0].operation.runs_backward:
        inputs = state.go_backward(pair, evidence, inputs)
    decide(state, Visit(pair, call, evidence, inputs, output, manner))
    if state.raised is not None and not manner.raises:
        state.raised = None


def _is_plain(state: State, pair: Pair, evidence: Evidence, inputs: InputCauses, output: Closeness) -> bool:
    """Whether nothing is known to differ, as most often; then there is nothing to decide."""
    if evidence.manner is not SAME_MANNER:
        return False
    if output.measure or output.same is False:
        return False
    if state.containers.around:
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
    if not inputs.suspects:
        return
    suspect = None
    if not _is_certain(output):
        suspect = _suspect_of_input(pair, evidence, inputs, output)
    ledger.links[number] = Link(suspect=suspect, has_suspect_input=True)


def _is_certain(output: Closeness) -> bool:
    """Whether an output is known to be the same, by all its values."""
    return bool(output.same) and output.certainty == "values"


def _manner(state: State, pair: Pair, call: Call, evidence: Evidence, inputs: InputCauses) -> tuple[Manner, Numbers]:
    """How the calls are made, and the causes of their inputs.

    Arguments that came out of an earlier call that differs follow from it. An input that another call made, although
    nothing differs, is another tensor.
    """
    manner, causes = evidence.manner, inputs.causes
    if manner.changes and state.numbers.causes:
        manner, causes = _without_read_numbers(state, manner, causes)
    if inputs.rewired:
        names = [operand(index, evidence.operands, pair.a[0].operation, call.kwargs) for index in inputs.rewired]
        others = [Change("other tensor", name) for name in names]
        manner = manner._replace(changes=(*manner.changes, *others))
    return manner, causes


def _without_read_numbers(state: State, manner: Manner, causes: Numbers) -> tuple[Manner, Numbers]:
    """The manner without arguments, if all of these are numbers that earlier calls read, and the causes of those."""
    arguments = [change for change in manner.changes if change.aspect == "argument"]
    behind = [state.numbers.causes_of(change.a, change.b) for change in arguments]
    if not arguments or not all(behind):
        return manner, causes
    changes = [change for change in manner.changes if change.aspect != "argument"]
    return manner._replace(changes=tuple(changes)), union(causes, *behind)


def decide(state: State, visit: Visit) -> None:
    """Whether a pair of calls is a cause, follows, or is the same."""
    ledger, inputs, pair = state.ledger, visit.inputs, visit.pair
    account = _account(state, visit)
    if inputs.differs_from_start:
        account = differ_from_start(state, visit, account)
        ledger.links[pair.number] = _link(inputs)
    elif visit.output.same is False or visit.manner.raises:
        account = _differ(state, visit, account)
        ledger.links[pair.number] = _link(inputs)
    else:
        ledger.links[pair.number] = _agree(state, visit)
        state.update(pair, account)
    if inputs.unknown and ledger.causes(pair) == visit.itself:
        account = account._replace(unknown=visit.operands(inputs.unknown))
    if visit.manner.is_reshaped:
        state.reshaped.append(pair)
    ledger.accounts[pair.number] = account


def _account(state: State, visit: Visit) -> Account:
    """What is to be said of a pair, unless it turns out to be a cause."""
    output = visit.output
    kind: CauseKind = "output"
    if visit.operation.draws == "order":
        kind = "random"
    closeness = output._replace(certainty=visit.certainty)
    return Account(kind, closeness, visit.manner, (), visit.inputs.drift, state.containers.around)


def _link(inputs: InputCauses) -> Link:
    """How a pair that differs hangs together with what came before it."""
    causes = union(inputs.causes, inputs.faint)
    return Link(causes, inputs.causes, None, inputs.are_suspect)


def differ_from_start(state: State, visit: Visit, account: Account) -> Account:
    """A call that is given another tensor, which no call in the trace has made."""
    tensors = [visit.evidence.operands[index] for index in visit.inputs.from_start]
    causes = state.history.carried(visit.call, tensors)
    if not causes:
        causes = visit.itself
        account = account._replace(kind="input", manner=_manner_from_start(visit, tensors))
    state.sight(visit.pair, causes, account)
    if visit.output.same:
        state.ledger.agreed.add(visit.pair.number)
        _lose(state, visit, causes)
    return account


def _manner_from_start(visit: Visit, tensors: list[TensorFacts]) -> Manner:
    """The inputs that differ from the start, in place of all arguments."""
    changes = [Change("input", name) for name in visit.operands(visit.inputs.from_start)]
    changes += [change for change in visit.manner.changes if change.aspect == "exception"]
    types = {facts.type for facts in tensors}
    if visit.call.parent is None or types == {"Parameter"}:
        return Manner(tuple(changes), visit.manner.layout)
    return Manner(tuple(changes), (*visit.manner.layout, Change("unrecorded")))


def _lose(state: State, visit: Visit, causes: Numbers) -> None:
    """Remember a difference that goes into a call and does not come out, if much may be lost in the call."""
    if not causes:
        return
    if visit.operation.decides or has_nan(visit.call):
        state.history.inside |= causes


def _differ(state: State, visit: Visit, account: Account) -> Account:
    """An output that differs, or an exception: it follows from an earlier pair, or the pair is the cause."""
    pair, call = visit.pair, visit.call
    if state.raised is None and visit.manner.raises:
        state.raised = pair
    causes = _causes(state, visit)
    if not causes:
        causes = visit.itself
        account = account._replace(kind=_kind_of_cause(visit))
    elif _has_other_weights(state, visit):
        weights = [visit.evidence.operands[index] for index in visit.inputs.from_start]
        causes = union(causes, visit.itself)
        account = account._replace(kind="input", manner=_manner_from_start(visit, weights))
    state.sight(pair, causes, account)
    if type(call.result) is not TensorFacts:
        _add_read_numbers(state, pair, causes)
    return account


def _has_other_weights(state: State, visit: Visit) -> bool:
    """Whether parameters differ from the start, beside an input that differs because of an earlier cause."""
    weights = [visit.evidence.inputs[index] for index in visit.inputs.from_start]
    is_same_call = visit.pair.a[0].exact == visit.pair.b[0].exact
    if not weights or not is_same_call or not all(map(_is_one_parameter, weights)):
        return False
    return not state.history.carried(visit.call, [weight.a for weight in weights])


def _is_one_parameter(tensor: TensorPair) -> bool:
    """Whether two tensors can be the same parameter: they have one shape."""
    return tensor.a.type == "Parameter" and tensor.a.shape == tensor.b.shape


def _add_read_numbers(state: State, pair: Pair, causes: Numbers) -> None:
    """Remember what calls return that return no tensors."""
    a, b = pair.a[0].event, pair.b[0].event
    assert type(a) is Call and type(b) is Call
    if not a.outputs:
        state.numbers.add(a.result, b.result, causes)


def _causes(state: State, visit: Visit) -> Numbers:
    """The causes of an output that differs; none if the call itself is the cause."""
    if visit.inputs.causes or visit.manner.changes:
        return visit.inputs.causes
    for causes_of in _EXPLANATIONS:
        causes = causes_of(state, visit)
        if causes:
            return causes
    return NONE


def _random_causes(state: State, visit: Visit) -> Numbers:
    """The causes because of which a call draws other random numbers."""
    return state.causes_of_draw(visit.pair, visit.output)


def _faint_causes(state: State, visit: Visit) -> Numbers:
    """The causes of inputs that are close, and not quite the same."""
    return visit.inputs.faint


def _forward_causes(state: State, visit: Visit) -> Numbers:
    """The causes in the forward call whose gradient this call computes."""
    return state.backward(visit.pair)


def _attribute_causes(state: State, visit: Visit) -> Numbers:
    """The causes that a call may see which reads an attribute of a tensor, as its gradient."""
    if visit.operation.reads_attribute:
        return state.history.causes_before()
    return NONE


def _unnoticed_causes(state: State, visit: Visit) -> Numbers:
    """The causes of inputs whose difference was not noticed: by statistics, or within the tolerance."""
    pairs: Iterable[Pair] = visit.inputs.suspects
    if not visit.inputs.suspects and not draws(visit.pair.a[0]):
        pairs = state.likely(visit.inputs.drifters)
    return union(*[state.ledger.blame(pair, visit.output, None, visit.pair) for pair in pairs])


def _outside_causes(state: State, visit: Visit) -> Numbers:
    """The causes that may have come to inputs that no recorded call made."""
    if visit.inputs.is_outside:
        return state.history.carried(visit.call, visit.evidence.operands)
    return NONE


# Why an output may differ although no input is known to: the first that applies.
_EXPLANATIONS = (
    _random_causes,
    _faint_causes,
    _forward_causes,
    _attribute_causes,
    _unnoticed_causes,
    _outside_causes,
)


def _kind_of_cause(visit: Visit) -> CauseKind:
    """What kind of cause a call is whose output differs, and not because of what went into it."""
    if visit.manner.raises:
        return "raised"
    if visit.manner.changes:
        return "argument"
    if visit.operation.reads_attribute or _is_move_from_outside(visit):
        return "input"
    if draws(visit.pair.a[0]):
        return "random"
    return "output"


def _is_move_from_outside(visit: Visit) -> bool:
    """Whether a call only moves the elements of a tensor that no recorded call made."""
    if not visit.operation.is_move or not visit.inputs.is_outside:
        return False
    return len(visit.evidence.operands) == 1


def _agree(state: State, visit: Visit) -> Link:
    """An output that is the same, or of which nothing is known: what may still be wrong with it.

    Values in another order have the same statistics, and still have them after a call with that tensor alone.
    """
    inputs, output, pair = visit.inputs, visit.output, visit.pair
    causes, drifters = union(inputs.causes, inputs.faint), NONE
    if output.drifts:
        drifters = _drifters(visit)
        state.ledger.add_drift(pair, output.delta or 0.0)
    if output.same:
        _lose(state, visit, inputs.causes)
        state.ledger.agreed.add(pair.number)
    if _is_certain(output) and not visit.manner.is_loose:
        causes = causes if output.drifts else NONE
        return Link(causes, inputs.causes, None, inputs.are_suspect, drifters)
    if visit.operation.draws == "order":
        causes = union(causes, state.causes_of_draw(pair, output))
    return Link(causes, inputs.causes, _suspect(visit), inputs.are_suspect, drifters)


def _drifters(visit: Visit) -> Numbers:
    """The pairs in which a difference within the tolerance may have begun."""
    if visit.manner.changes or visit.manner.is_loose:
        return union(visit.inputs.drifters, visit.itself)
    return visit.inputs.drifters


def _suspect(visit: Visit) -> Pair | None:
    """The pair that may have changed an output although no difference was measured."""
    if visit.operation.draws == "order" or visit.manner.changes:
        return visit.pair
    if not visit.manner.is_loose:
        return _suspect_of_input(visit.pair, visit.evidence, visit.inputs, visit.output)
    if visit.inputs.suspects:
        return visit.inputs.suspects[0]
    return visit.pair


def _suspect_of_input(pair: Pair, evidence: Evidence, inputs: InputCauses, output: Closeness) -> Pair | None:
    """The suspect behind an input that still shows in the output: values in another order keep their statistics."""
    if not inputs.suspects:
        return None
    is_transparent = _takes_one_tensor(evidence) or pair.a[0].operation.is_move
    if is_transparent or output.same is None:
        return inputs.suspects[0]
    return None


def _takes_one_tensor(evidence: Evidence) -> bool:
    """Whether a call takes one tensor beside its parameters: a layer leaves rows in another order as they are."""
    count = len(evidence.operands)
    if count < 2:
        return count == 1
    return sum(facts.type != "Parameter" for facts in evidence.operands) == 1
