"""The finding of a gradient that is not finite: the forward call whose gradient a node computed, and what went in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.reading import Reading, values
from insitu.capture.finite import finiteness_of, first_bad, is_finite
from insitu.capture.guard.facts import (
    alive,
    facts_of,
    input_values,
    module_chain,
    operands,
    saved_operands,
    saved_tensors,
)
from insitu.capture.guard.forward import report_waiting, result_finding, waiting_at
from insitu.capture.guard.risk import has_hooks
from insitu.capture.guard.waiting import Wait
from insitu.capture.sites import Sites, is_hidden
from insitu.capture.tape import Tape
from insitu.capture.torch_internals import FORWARD_CLASS, current_node, node_number
from insitu.trace.event import Call, Site
from insitu.trace.findings import ConsequentGradient, Finding, FindingKind, NonFiniteGradient, UncheckedGradient
from insitu.trace.origin import Finiteness, GradientOrigin, explains, union

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks


@dataclass(frozen=True, slots=True)
class BadGradient:
    """A gradient that is not finite and leaves an autograd node; `incoming` is what went into the node."""

    tensor: Tensor
    node: Any
    origin: GradientOrigin
    incoming: Finiteness

    @property
    def has_nan(self) -> bool:
        """Whether it contains NaN, and not only Inf."""
        return finiteness_of(self.tensor).nan

    @property
    def kind(self) -> FindingKind:
        """The kind of finding that it is."""
        if self.has_nan:
            return "nan"
        return "inf"

    def index(self) -> tuple[int, ...] | None:
        """The index of its first bad element."""
        return first_bad(self.tensor, nan=self.has_nan)


def gradient_finding(
    check: ProbeChecks, tensor: Tensor, origin: GradientOrigin, incoming: Finiteness
) -> Finding | None:
    """The finding of the autograd node that runs now, and of which a gradient that is not finite leaves."""
    node: Any = current_node()
    gradient = BadGradient(tensor, node, origin, incoming)
    tape, at = place_of(check, node_number(node))
    if at is None:
        return unplaced_finding(check, gradient)
    with Reading(tape) as reading:
        if origin is GradientOrigin.UNCHECKED:
            return unchecked_gradient_finding(check, reading, at, gradient)
        return node_finding(check, reading, at, gradient)


def unchecked_gradient_finding(check: ProbeChecks, reading: Reading, at: int, gradient: BadGradient) -> Finding | None:
    """The finding of the call that used the result of the call at an offset or, if there is none, of the node."""
    user = unchecked_user(check, reading, at)
    if user is None:
        return node_finding(check, reading, at, gradient)
    return user_finding(check, reading, user, gradient)


def node_finding(check: ProbeChecks, reading: Reading, at: int, gradient: BadGradient) -> Finding | None:
    """The finding of the node that computed the gradient of the call at an offset."""
    if check.is_allowed(reading, at):
        return None
    waiting = waiting_at(check, reading, at)
    if waiting is not None:
        return report_waiting(check, waiting, "gradient", reading, at)
    saved = [tensor for _, tensor in saved_tensors(gradient.node)]
    if follows(check, [*alive(input_values(reading, at)), *saved], gradient):
        own = waiting_result(check, reading, at)
        if own is not None:
            return report_waiting(check, own, "gradient", reading, at)
        return consequence(check, reading, at, gradient, gradient.node.name())
    check.checks.has_found = True
    facts = facts_at(check, reading, at, gradient)
    if gradient.origin is GradientOrigin.UNCHECKED:
        return UncheckedGradient(node=gradient.node.name(), **facts)
    is_finite = gradient.incoming.is_finite
    return NonFiniteGradient(
        kind=gradient.kind,
        node=gradient.node.name(),
        has_finite_inputs=is_finite,
        has_infinite_gradient=not is_finite,
        **facts,
    )


def waiting_result(check: ProbeChecks, reading: Reading, at: int) -> Wait | None:
    """The finding that waits behind the results of a call, on the tape or in the past."""
    if reading.tape is check.probe.tape:
        return check.waiting.at(at)
    return check.waiting.of_earlier(values(reading.result(at)))


def user_finding(check: ProbeChecks, reading: Reading, at: int, gradient: BadGradient) -> Finding | None:
    """The finding of an unchecked call at an offset, whose gradient autograd computed without a hook."""
    if check.is_allowed(reading, at):
        return None
    if follows(check, alive(input_values(reading, at)), gradient):
        return consequence(check, reading, at, gradient, "autograd")
    check.checks.has_found = True
    facts = facts_at(check, reading, at, gradient, has_node=False)
    is_finite = gradient.incoming.is_finite
    return NonFiniteGradient(kind=gradient.kind, node="autograd", has_finite_inputs=is_finite, **facts)


def consequence(check: ProbeChecks, reading: Reading, at: int, gradient: BadGradient, node: str) -> Finding | None:
    """The finding of a gradient that follows from the forward pass, unless the forward pass was reported."""
    if check.checks.has_found or check.checks.has_incoming:
        return None
    check.checks.has_incoming = True
    check.checks.has_found = gradient.origin is GradientOrigin.UNCHECKED
    return ConsequentGradient(node=node, **facts_at(check, reading, at, gradient, has_node=node != "autograd"))


def follows(check: ProbeChecks, tensors: list[Tensor], gradient: BadGradient) -> bool:
    """Whether a gradient is not finite because the tensors of the forward call are not."""
    forward = union(map(finiteness_of, tensors))
    return explains(forward, nan=gradient.has_nan and not check.checks.has_found)


def facts_at(
    check: ProbeChecks, reading: Reading, at: int, gradient: BadGradient, *, has_node: bool = True
) -> dict[str, Any]:
    """The fields that all findings about the gradient of a call have."""
    call = reading.call(at)
    found = operands(check.probe, reading, at, alive(input_values(reading, at)))
    if has_node and any(operand.facts.stats is None for operand in found):
        found += saved_operands(gradient.node)
    return {
        "path": call.path,
        "call": call,
        "site": call.site,
        "output": facts_of(gradient.tensor),
        "index": gradient.index(),
        "operands": tuple(found),
        "modules": module_chain(reading, at),
    }


def backward_finding(check: ProbeChecks, since: int | None) -> Finding | None:
    """The finding of the first call whose result is not finite in a backward function that the user has written.

    `since` is the offset of its first call; None if no such function has run just now.
    """
    if since is None:
        return None
    finding = check.waiting.since(since)
    if finding is not None:
        check.waiting.end(finding)
        check.checks.has_found = True
        return replace(finding, reach=finding.reach or "backward")
    written = min((at for at in check.nonfinite if at >= since), default=None)
    if written is None:
        return None
    there = alive(values(check.probe.tape.result(written)))
    bad = [tensor for tensor in there if not is_finite(tensor)]
    if not bad:
        return None
    check.checks.has_found = True
    inputs = alive(input_values(Reading(check.probe.tape), written))
    found = result_finding(check, written, bad[0], inputs, has_finite_inputs=all(map(is_finite, inputs)))
    return replace(found, reach="backward")


def unplaced_finding(check: ProbeChecks, gradient: BadGradient) -> Finding | None:
    """The finding of a node that no call on a tape made: of a hand-written function, or of a compiled region."""
    if check.checks.has_found:
        return None
    check.checks.has_found = True
    node, call = gradient.node, unseen_call(check.probe.tape, node_number(gradient.node))
    facts: dict[str, Any] = {
        "site": definition_of(node),
        "output": facts_of(gradient.tensor),
        "index": gradient.index(),
        "operands": tuple(saved_operands(node)),
        "node": node.name(),
    }
    if call is not None:
        facts |= {"call": call, "path": call.path, "site": facts["site"] or call.site}
    if gradient.origin is GradientOrigin.UNCHECKED:
        return UncheckedGradient(**facts)
    return NonFiniteGradient(kind=gradient.kind, has_finite_inputs=gradient.incoming.is_finite, **facts)


def definition_of(node: Any) -> Site | None:
    """Where the user has written the backward pass of a node."""
    written = getattr(getattr(type(node), FORWARD_CLASS, None), "backward", None)
    code = getattr(written, "__code__", None)
    if code is not None and not is_hidden(code.co_filename):
        return Sites().definition(code)
    return None


def unseen_call(tape: Tape, number: int) -> Call | None:
    """The compiled region, or the module in which nothing was seen, that made a node that no function has made."""
    earlier = takewhile(lambda at: is_before(tape.nodes(at), number), tape.calls())
    opaque = [at for at in earlier if not isinstance(tape.callee(at), FunctionCallee)]
    makers = [at for at in opaque if any(value.producer == at for value in values(tape.result(at)))]
    if makers:
        return Reading(tape).call(makers[-1])
    return None


def is_before(nodes: range, number: int) -> bool:
    """Whether a call made no nodes, or began to make them before the node with a number."""
    return not nodes or nodes.start <= number


def place_of(check: ProbeChecks, number: int) -> tuple[Tape, int | None]:
    """The tape, and the call on it, that made the autograd node with a number."""
    at = check.probe.tape.maker(number)
    if at is not None:
        return (check.probe.tape, at)
    return (check.past, check.past.maker(number))


def unchecked_user(check: ProbeChecks, reading: Reading, at: int) -> int | None:
    """The call that used the result of another one, and whose gradients are not checked."""
    results = set(map(id, values(reading.result(at))))
    for other in reading.before(len(reading.tape)):
        if other <= at or has_hooks(reading.callee(other)):
            continue
        if results.intersection(map(id, input_values(reading, other))):
            return other
    return None
