"""Why a gradient is not finite: the forward call whose gradient an autograd node computed, and what went into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.cause import report_waiting, waiting_at
from insitu.capture.guard.facts import facts_of, module_chain, noted_values, operands, saved, saved_tensors
from insitu.capture.guard.values import State, first_bad, state_of
from insitu.capture.sites import Sites, is_hidden
from insitu.capture.tape import Tape
from insitu.capture.torch_internals import FORWARD_CLASS, current_node, node_number
from insitu.trace.event import Call, Site
from insitu.trace.findings import ConsequentGradient, Finding, FindingKind, NonFiniteGradient, UncheckedGradient

if TYPE_CHECKING:
    from insitu.capture.guard.check import Check


def gradient_cause(check: Check, bad: Tensor, *, given: bool, entered: State) -> Finding | None:
    """The finding of an autograd node that made NaN or Inf, or got it (`given`) from where nothing was checked.

    `entered` is what was not finite in the gradient that it got.
    """
    node: Any = current_node()
    state, name = state_of(bad), node.name()
    kind: FindingKind = "nan" if state.nan else "inf"
    output, index = facts_of(bad), first_bad(bad, nan=state.nan)
    tape, at = place_of(check, node_number(node))
    if at is None:
        return unplaced_cause(check, bad, node, given=given, entered=entered)
    reading, is_unchecked = Reading(tape), False
    try:
        if given:
            user = unchecked_user(check, reading, at)
            is_unchecked = user is None
            at, node, name = (user, None, "autograd") if user is not None else (at, node, name)
        call = reading.call(at)
        alive = [tensor for value in noted_values(reading, at) if (tensor := value()) is not None]
        if check.checks.allowed(call.name, call.path):
            return None
        waiting = waiting_at(check, reading, at) if node is not None else None
        if waiting is not None:
            return report_waiting(check, waiting, "gradient", reading, at)
        passed = follows(node, alive, nan=state.nan and not check.checks.found)
        if passed:
            if check.checks.found or check.checks.told:
                return None
            check.checks.told = True
        check.checks.found = check.checks.found or not (passed or is_unchecked) or given
        found = operands(check.probe, reading, at, alive)
        if any(operand.facts.stats is None for operand in found):
            found += saved(node)
        facts: dict[str, Any] = {"path": call.path, "call": call, "site": call.site, "output": output, "index": index}
        facts |= {"operands": tuple(found), "modules": module_chain(reading, at), "node": name}
        if passed:
            return ConsequentGradient(**facts)
        if is_unchecked:
            return UncheckedGradient(**facts)
        is_infinite = bool(entered) and node is not None
        return NonFiniteGradient(kind=kind, has_finite_inputs=not entered, has_infinite_gradient=is_infinite, **facts)
    finally:
        reading.close()


def unplaced_cause(check: Check, bad: Tensor, node: Any, *, given: bool, entered: State) -> Finding | None:
    """The same for a node that no call on a tape has made: of a hand-written function, or a compiled region."""
    if check.checks.found:
        return None
    check.checks.found = True
    state, call = state_of(bad), unseen_call(check.probe.tape, node_number(node))
    kind: FindingKind = "nan" if state.nan else "inf"
    site = definition_of(node) or (call.site if call is not None else None)
    path = call.path if call is not None else ""
    facts: dict[str, Any] = {"path": path, "call": call, "site": site, "output": facts_of(bad), "node": node.name()}
    facts |= {"index": first_bad(bad, nan=state.nan), "operands": tuple(saved(node))}
    if given:
        return UncheckedGradient(**facts)
    return NonFiniteGradient(kind=kind, has_finite_inputs=not entered, **facts)


def definition_of(node: Any) -> Site | None:
    """Where the user has written the backward pass of a node."""
    written = getattr(getattr(type(node), FORWARD_CLASS, None), "backward", None)
    code = getattr(written, "__code__", None)
    return Sites().definition(code) if code is not None and not is_hidden(code.co_filename) else None


def unseen_call(tape: Tape, number: int) -> Call | None:
    """The compiled region, or the module in which nothing was seen, that made a node that no function has made."""
    found = None
    for at in tape.calls():
        nodes = tape.nodes(at)
        if nodes and nodes.start > number:
            break
        if any(value.producer == at for value in values(tape.result(at))):
            found = at if not isinstance(tape.callee(at), FunctionCallee) else found
    return Reading(tape).call(found) if found is not None else None


def place_of(check: Check, number: int) -> tuple[Tape, int | None]:
    """The tape, and the call on it, that made the autograd node with a number."""
    at = check.probe.tape.maker(number)
    return (check.probe.tape, at) if at is not None else (check.past, check.past.maker(number))


def unchecked_user(check: Check, reading: Reading, at: int) -> int | None:
    """The call that used the result of another one, and whose gradients are not checked."""
    results = {id(value) for value in values(reading.result(at))}
    later = (other for other in reading.before(len(reading.tape)) if other > at)
    unchecked = (other for other in later if not check.has_hooks(reading.callee(other)))
    uses = (other for other in unchecked if any(id(value) in results for value in noted_values(reading, other)))
    return next(uses, None)


def follows(node: Any, operands: list[Tensor], *, nan: bool) -> bool:
    """Whether a gradient is not finite because the forward pass was not; with `nan` only NaN explains it."""
    states = [state_of(tensor) for tensor in (*operands, *(tensor for _, tensor in saved_tensors(node)))]
    return any(state.nan if nan else state for state in states)
