"""The finding of a forward call whose output is not finite: collects the facts, and asks `trace.origin`.

This runs when a sum was not finite, which is rare: it may take its time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.containers import tensors_in
from insitu.capture.explain.reading import Reading
from insitu.capture.finite import bad_share, finiteness_of, first_bad, has_least, is_finite
from insitu.capture.guard.facts import (
    alive,
    facts_of,
    holds_nonfinite,
    input_values,
    module_chain,
    names_at,
    operands,
    parameter_path,
)
from insitu.capture.guard.history import TapeHistory
from insitu.capture.guard.waiting import Wait
from insitu.capture.tensors import GIVEN, ParameterValue, Value
from insitu.trace.findings import (
    Finding,
    NonFinite,
    NonFiniteData,
    NonFiniteInput,
    NonFiniteResult,
    Reach,
    TensorOperand,
)
from insitu.trace.operation import operation
from insitu.trace.origin import (
    FINITE,
    Contact,
    Finiteness,
    Passage,
    literals,
    origin_output,
    reach_beyond_repair,
    unchecked_source,
)

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks


@dataclass(frozen=True, slots=True)
class CallTensors:
    """The tensors of a call that has just returned; `before` is what the one that it changed in place contained."""

    callee: FunctionCallee
    at: int
    inputs: list[Tensor]
    outputs: list[Tensor]
    arguments: tuple[Any, Any]
    before: tuple[Finiteness, ...]

    def passage(self) -> Passage:
        """The call as `trace.origin` needs it."""
        inputs = (*map(finiteness_of, self.inputs), *self.before)
        outputs = tuple(map(finiteness_of, self.outputs))
        passage = Passage(operation(self.callee.kind, self.callee.name), inputs, outputs, literals(self.arguments))
        return replace(passage, has_least=self._has_least(passage))

    def _has_least(self, passage: Passage) -> bool:
        """Whether an input holds the least number of its dtype; it is read only where the answer matters."""
        masked = [tensor for tensor, each in zip(self.outputs, passage.outputs, strict=True) if each.is_minus_inf]
        return passage.incoming.is_finite and any(has_least(self.inputs, tensor) for tensor in masked)


def call_tensors(
    callee: FunctionCallee, at: int, args: Any, kwargs: Any, result: Any, before: Finiteness | None
) -> CallTensors:
    """The tensors of a call; a tensor that the call changes in place is an output."""
    read = {**kwargs} if kwargs else {}
    read.pop("out", None)
    inputs, outputs = tensors_in((args, read)), tensors_in(result)
    earlier: tuple[Finiteness, ...] = ()
    if changes(callee, args, kwargs):
        inputs = [tensor for tensor in inputs if tensor is not args[0]]
        earlier = (before or FINITE,)
    if callee.in_place:
        known = set(map(id, outputs))
        outputs += [tensor for tensor in tensors_in(args[:1]) if id(tensor) not in known]
    return CallTensors(callee, at, inputs, outputs, (args, kwargs), earlier)


def changes(callee: FunctionCallee, args: Any, kwargs: Any) -> bool:
    """Whether a function changes its first argument; what returns that, as `x.to(device)` often does, need not."""
    if not args:
        return False
    if callee.in_place or not kwargs:
        return callee.in_place
    return kwargs.get("inplace") is True


def output_finding(
    check: ProbeChecks, callee: FunctionCallee, at: int, args: Any, kwargs: Any, result: Any, before: Finiteness | None
) -> Finding | None:
    """The finding of a call whose output is not finite; None if it is not news, or may still heal."""
    tensors = call_tensors(callee, at, args, kwargs, result, before)
    is_large_sum = tensors.outputs and all(map(is_finite, tensors.outputs))
    if is_large_sum:
        check.nonfinite.discard(at)
        check.unchecked.add(at)  # the next call may well overflow: check it while its inputs are there
        return None
    if check.checks.is_allowed(callee.name, check.path):
        return None
    passage = tensors.passage()
    if is_meant(check, passage):
        hold_data(check, tensors, passage)
        return None
    waiting = waiting_at(check, Reading(check.probe.tape), at)
    if waiting is not None:
        return pass_on(check, tensors, passage, waiting)
    if passage.is_literal:
        return None
    return earlier_finding(check, tensors, passage) or new_finding(check, tensors, passage)


def is_meant(check: ProbeChecks, passage: Passage) -> bool:
    """Whether NaN was written down or loaded, or a loss is scaled too far: the optimizer skips that step."""
    is_scaled_too_far = check.checks.is_scaling and passage.incoming.is_finite
    return passage.literals.nan or not passage.inputs or is_scaled_too_far


def hold_data(check: ProbeChecks, tensors: CallTensors, passage: Passage) -> None:
    """If a call made a tensor of data that is not finite, its finding waits, for the data may be masked."""
    if passage.inputs or not passage.literals.is_finite:
        return
    finding = result_finding(check, tensors.at, tensors.outputs[0], [], has_finite_inputs=False)
    data = data_finding(check, finding)
    if data is not None:
        check.waiting.add(tensors.at, Wait(data))


def earlier_finding(check: ProbeChecks, tensors: CallTensors, passage: Passage) -> Finding | None:
    """The finding of an unchecked call before this one, which produced the NaN or Inf that went in."""
    if passage.incoming.is_finite:
        return None
    return unchecked_finding(check, tensors.inputs)


def new_finding(check: ProbeChecks, tensors: CallTensors, passage: Passage) -> Finding | None:
    """The finding of a call that passes on what came in. That of a call that produced NaN or Inf waits."""
    index = origin_output(passage)
    if index is None:
        return incoming_finding(check, tensors.at, tensors.inputs, check.path)
    output = tensors.outputs[index]
    finding = result_finding(
        check,
        tensors.at,
        output,
        tensors_in(tensors.arguments),
        has_finite_inputs=passage.has_finite_inputs,
    )
    is_overflow = passage.operation.risk == "overflow" and finding.kind == "inf"
    if is_overflow and output.requires_grad:
        leave_to_next_call(check, tensors, finding)
        return None
    check.waiting.add(tensors.at, Wait(finding))
    return None


def leave_to_next_call(check: ProbeChecks, tensors: CallTensors, finding: NonFiniteResult) -> None:
    """A call has overflowed: the next call finds that, unless it repairs it. The inputs are finite, and known to be."""
    check.nonfinite.discard(tensors.at)
    check.unchecked.add(tensors.at)
    check.overflows[tensors.at] = finding
    for tensor in tensors.inputs:
        value = check.value_of(tensor)
        if value is None or value.producer not in check.unchecked:
            continue
        if isinstance(check.probe.tape.result(value.producer), Value):  # else it is one of several
            check.unchecked.discard(value.producer)


# NaN and Inf that may heal.


def waiting_at(check: ProbeChecks, reading: Reading, at: int) -> Wait | None:
    """The finding that waits behind the arguments of a call, on the tape or in the past."""
    if not check.waiting:
        return None
    noted = input_values(reading, at)
    if reading.tape is check.probe.tape:
        return waiting_behind(check, noted)
    return check.waiting.of_earlier(noted)


def waiting_behind(check: ProbeChecks, values: list[Value]) -> Wait | None:
    """The finding that waits behind some values, through the calls that pass them on unchecked."""
    history = TapeHistory(check)
    bad = [value for value in values if value() is None or holds_nonfinite(value)]
    return check.waiting.of(bad) or check.waiting.of(unchecked_source(history, value)[0] for value in bad)


def pass_on(check: ProbeChecks, tensors: CallTensors, passage: Passage, wait: Wait) -> Finding | None:
    """A finding that waits has come into a call whose result is not finite either: report it if it matters now."""
    passes = wait.passes + passage.outgoing.nan
    contact = Contact(passage, bad_share(tensors.inputs), bad_share(tensors.outputs), passes)
    with Reading(check.probe.tape) as reading:
        if contact.makes_nan and not isinstance(wait.finding, NonFiniteInput):
            wait = replace(wait, finding=replace(wait.finding, reach="nan", consumer=reading.call(tensors.at)))
        reach = None if wait.is_data else reach_beyond_repair(contact)
        if reach is not None:
            return report_waiting(check, wait, reach, reading, tensors.at)
    bad = [tensor for tensor in tensors.outputs if not is_finite(tensor)]
    check.nodes.add_unlikely(tensors.at, bad)
    check.waiting.add(tensors.at, replace(wait, passes=passes))
    return None


def report_waiting(check: ProbeChecks, wait: Wait, reach: Reach, reading: Reading, at: int) -> Finding:
    """The finding that waited, once it has reached what matters: the call at an offset shows it."""
    finding = wait.finding
    check.waiting.end(finding)
    if isinstance(finding, NonFiniteInput):
        check.checks.has_incoming = True
        return finding
    check.checks.has_found = True
    if finding.reach is None:
        finding = replace(finding, reach=reach, consumer=reading.call(at))
    if isinstance(finding, NonFiniteResult):
        return replace(finding, is_metric=reach == "number" and check.checks.has_trained)
    return finding


# NaN and Inf that came in.


def incoming_finding(
    check: ProbeChecks, at: int, inputs: list[Tensor], path: str, *, is_loss: bool = False
) -> Finding | None:
    """The finding of a call that only passes on what came in, if that came from where nothing was checked."""
    earlier = unchecked_finding(check, inputs)
    if earlier is not None or check.checks.has_found:
        return earlier
    for tensor in inputs:
        value = check.value_of(tensor)
        if value is None or is_finite(tensor):
            continue
        source, _ = unchecked_source(TapeHistory(check), value)
        if is_opaque(check, source.producer):
            return opaque_finding(check, source.producer, tensor)
        if is_given(check, source):
            return given_finding(check, at, source, value, path, is_loss=is_loss)
    return None


def is_given(check: ProbeChecks, source: Value) -> bool:
    """Whether nothing on the tape computed a tensor; it may be put together from tensors that are gone."""
    if source.producer < 0:
        return source.producer == GIVEN
    history = TapeHistory(check)
    if history.can_produce(source.producer):
        return False
    return any(value.producer == GIVEN for value in gone(history.inputs(source.producer)))


def given_finding(
    check: ProbeChecks, at: int, source: Value, value: Value, path: str, *, is_loss: bool
) -> Finding | None:
    """The finding of a parameter, or of a loss, that came in with NaN or Inf. That of data waits: it may be masked."""
    is_parameter = isinstance(source, ParameterValue)
    named = source if is_parameter else value
    tensor = named()
    if tensor is None:
        return None
    finding = input_finding(check, at, named, tensor, path)
    if is_parameter or is_loss:
        check.checks.has_incoming = True
        return finding
    check.waiting.add(at, Wait(data_finding(check, finding) or finding))
    return None


def data_finding(check: ProbeChecks, finding: NonFinite) -> NonFiniteData | None:
    """The finding of data, if the lines that can have computed it outside of torch are found."""
    sources = check.checks.array_sources.here()
    if not sources:
        return None
    return NonFiniteData(
        path=finding.path,
        call=finding.call,
        site=sources[0],
        output=finding.output,
        index=finding.index,
        sources=sources,
    )


def is_opaque(check: ProbeChecks, call: int) -> bool:
    """Whether a call is a module or a compiled region, in which no function was seen."""
    if call < 0:
        return False
    return not isinstance(check.probe.tape.callee(call), FunctionCallee)


def unchecked_finding(check: ProbeChecks, tensors: list[Tensor]) -> Finding | None:
    """The finding of the unchecked call that produced the first of some tensors that is not finite, if there is one."""
    history = TapeHistory(check)
    for tensor in tensors:
        value = check.value_of(tensor)
        if value is None or is_finite(tensor):
            continue
        source, is_produced = unchecked_source(history, value)
        if not is_produced:
            continue
        finding = overflow_finding(check, history, source, tensor)
        if finding is not None:
            return finding
    return None


def overflow_finding(check: ProbeChecks, history: TapeHistory, value: Value, tensor: Tensor) -> Finding | None:
    """The finding of a call that was not checked, because it produces NaN or Inf only by an overflow."""
    call = value.producer
    check.unchecked.discard(call)
    check.nonfinite.add(call)
    output = tensor_of(value, tensor)
    if is_excused(check, history, call, output):
        return None
    check.checks.has_found = True
    known = check.overflows.pop(call, None)
    if known is not None:
        return known
    return result_finding(check, call, output, alive(history.inputs(call)), has_finite_inputs=True)


def is_excused(check: ProbeChecks, history: TapeHistory, call: int, output: Tensor) -> bool:
    """Whether the NaN or Inf of an unchecked call is allowed, was written down, or is a mask."""
    passage, callee = history.entry(call), check.probe.tape.callee(call)
    if passage is None or check.checks.is_allowed(callee.name, call_path(check, call)):
        return True
    found, inputs = finiteness_of(output), history.inputs(call)
    if replace(passage, outputs=(found,)).is_literal:
        return True
    missing, there = gone(inputs), alive(inputs)
    if any(map(history.is_literal, missing)):
        return True
    return found.is_minus_inf and (bool(missing) or has_least(there, output))


def tensor_of(value: Value, other: Tensor) -> Tensor:
    """The tensor of a value or, if it is gone, another one."""
    tensor = value()
    if tensor is None:
        return other
    return tensor


def gone(values: list[Value]) -> list[Value]:
    """The values whose tensors are gone."""
    return [value for value in values if value() is None]


def call_path(check: ProbeChecks, at: int) -> str:
    """The path of the module in which a call was made."""
    with Reading(check.probe.tape) as reading:
        return reading.call(at).path


# Findings.


def opaque_finding(check: ProbeChecks, at: int, tensor: Tensor) -> Finding | None:
    """The finding of a module, or a compiled region, in which no function was seen, unless an input is not finite."""
    history = TapeHistory(check)
    inputs = history.inputs(at)
    if finiteness_of(tensor).is_minus_inf or any(map(holds_nonfinite, inputs)):
        return None
    check.checks.has_found = True
    there = alive(inputs)
    return result_finding(check, at, tensor, there, has_finite_inputs=len(there) == len(inputs))


def input_finding(check: ProbeChecks, at: int, value: Value, tensor: Tensor, path: str) -> NonFiniteInput:
    """The finding of a tensor that was not finite before the guard began, or of the parameter that it came from."""
    tensor = tensor_of(value, tensor)
    with Reading(check.probe.tape) as reading:
        call, facts = reading.call(at), facts_of(tensor)
        name = parameter_path(check.probe, tensor) or names_at(reading, at).get(id(value), "")
        return NonFiniteInput(
            phase=call.phase,
            path=path,
            call=call,
            site=call.site,
            output=facts,
            index=first_bad(tensor, nan=finiteness_of(tensor).nan),
            operands=(TensorOperand(facts, name),),
        )


def result_finding(
    check: ProbeChecks, at: int, output: Tensor, inputs: list[Tensor], *, has_finite_inputs: bool
) -> NonFiniteResult:
    """The finding of a call that produced NaN or Inf; `inputs` are the tensors that went in and are still there."""
    nan = finiteness_of(output).nan
    with Reading(check.probe.tape) as reading:
        call = reading.call(at)
        return NonFiniteResult(
            kind="nan" if nan else "inf",
            phase=call.phase,
            path=call.path,
            call=call,
            site=call.site,
            output=facts_of(output),
            index=first_bad(output, nan=nan),
            operands=tuple(operands(check.probe, reading, at, inputs, changed=output)),
            modules=module_chain(reading, at),
            has_finite_inputs=has_finite_inputs,
            has_positive_infinity=any(finiteness_of(each).inf for each in inputs if each is not output),
        )
