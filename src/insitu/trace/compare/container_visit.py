"""The causal pass where a module or a watched function begins and ends."""

from __future__ import annotations

from insitu.trace.compare.call_visit import Visit, decide, differ_from_start
from insitu.trace.compare.change import SAME_MANNER, Manner
from insitu.trace.compare.closeness import NOTHING_DIFFERS, worst
from insitu.trace.compare.evidence import Evidence
from insitu.trace.compare.input_causes import InputCauses
from insitu.trace.compare.ledger import Account, Link, Numbers, union
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.state import State
from insitu.trace.event import Call


def visit_beginning(state: State, pair: Pair, evidence: Evidence) -> None:
    """A module or a watched function is called: with which arguments, and with which tensors from the start."""
    call = pair.a[0].event
    assert type(call) is Call
    state.containers.beginnings[call.id] = pair
    inputs = state.lineage.passed_on(pair, evidence.inputs)
    link = Link(has_suspect_input=inputs.are_suspect)
    if pair.a[0].operation.runs_backward:
        inputs = state.go_backward(pair, evidence, inputs)
    account = Account(manner=evidence.manner, around=state.containers.around)
    if inputs.differs_from_start:
        largest = worst([state.lineage.closeness(evidence.inputs[index]) for index in inputs.from_start])
        visit = Visit(pair, call, evidence, inputs, NOTHING_DIFFERS, evidence.manner)
        account = differ_from_start(state, visit, account._replace(closeness=largest))
    if account.manner != SAME_MANNER:
        state.containers.around += (pair,)
    state.ledger.links[pair.number] = link
    state.ledger.accounts[pair.number] = account._replace(has_row=bool(account.manner.changes))


def visit_end(state: State, pair: Pair, evidence: Evidence) -> None:
    """A module or a watched function returns: an inner call made the result, or else the container counts as maker."""
    a, b = pair.a[0].event, pair.b[0].event
    assert type(a) is Call and type(b) is Call
    begin = state.containers.end(a.id)
    results = state.lineage.passed_on(pair, evidence.outputs)
    if begin is not None and a.outputs:
        _agree(state, begin, results)
    manner = _manner_of_end(state, evidence)
    has_row = evidence.is_producer and _returns_tensors(a, b)
    state.ledger.accounts[pair.number] = Account(manner=manner, around=state.containers.around, has_row=has_row)
    _come_out(state, pair, evidence, begin, results)
    if evidence.is_producer:
        state.producers.add(pair)
    output = state.output(evidence)
    if output.same is False or manner.raises:
        inputs = _inputs_of_container(state, pair, evidence, begin)
        decide(state, Visit(pair, a, evidence, inputs, output, manner))


def _manner_of_end(state: State, evidence: Evidence) -> Manner:
    """How a container ends differently; an exception that is on its way only passes through."""
    if state.raised is not None:
        return SAME_MANNER
    return evidence.manner


def _agree(state: State, begin: Pair, results: InputCauses) -> None:
    """Remember that a container returns the same, if it is known to."""
    if not any((results.causes, results.from_start, results.rewired, results.unknown)):
        state.ledger.agreed.add(begin.number)


def _returns_tensors(a: Call, b: Call) -> bool:
    if a.raised is not None or b.raised is not None:
        return False
    return bool(a.outputs)


def _inputs_of_container(state: State, pair: Pair, evidence: Evidence, begin: Pair | None) -> InputCauses:
    """What goes into a container; what differs within it goes into its result, too."""
    inputs = state.lineage.inputs(pair, evidence.inputs)
    latest = state.history.latest
    if latest is None or begin is None:
        return inputs
    if latest.number <= begin.number:
        return inputs
    return inputs._replace(causes=union(inputs.causes, state.ledger.causes(latest)))


def _come_out(state: State, pair: Pair, evidence: Evidence, begin: Pair | None, results: InputCauses) -> None:
    """Remember which causes show in what a module returns: those within it, and all if it is the outermost one."""
    call = pair.a[0].event
    if type(call) is not Call or call.kind != "module" or call.module is None:
        return
    is_outermost = call.parent is None
    if not call.module.leaf:
        _show_results(state, pair, begin, results.causes, is_outermost)
    if is_outermost:
        _may_go_backward(state, pair, evidence)


def _show_results(state: State, pair: Pair, begin: Pair | None, causes: Numbers, is_outermost: bool) -> None:
    """Remember the causes in what a module with other modules in it returns."""
    if is_outermost:
        state.history.reach_results(causes)
    is_same_module = pair.a[0].exact == pair.b[0].exact
    if begin is not None and is_same_module:
        state.history.inside |= {number for number in causes if number > begin.number}


def _may_go_backward(state: State, pair: Pair, evidence: Evidence) -> None:
    """The model returns: if a backward pass that was not recorded begins with its result, cuts show in gradients."""
    cuts = state.cuts.behind(pair, evidence.outputs, evidence)
    if cuts and state.learns_unseen:
        causes = state.cuts.reach_backward(cuts)
        state.sight(pair, causes, state.ledger.account(pair))
        state.history.reach_results(causes)
