"""Why something is not finite, and whether that is news: only the call that made it so of finite numbers is.

This runs when a sum was not finite, which is rare: it may take its time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.reading import Reading
from insitu.capture.guard.facts import (
    facts_of,
    module_chain,
    names_at,
    noted_values,
    operands,
    parameter_path,
)
from insitu.capture.guard.values import State, first_bad, floats, state_of, tensors_in
from insitu.capture.guard.ways import changes
from insitu.capture.keep import unnoticed
from insitu.capture.tensors import GIVEN, ParameterValue, Value
from insitu.trace.findings import Finding, FindingKind, NonFiniteInput, NonFiniteResult, Reach, TensorOperand
from insitu.trace.operation import operation

if TYPE_CHECKING:
    from insitu.capture.guard.check import Check

# How near the least number of a type a mask comes that is added to scores.
NEARLY_LEAST = 0.9
MOST_DEPTH = 4


def cause(
    check: Check, callee: FunctionCallee, at: int, args: Any, kwargs: Any, result: Any, before: State | None
) -> Finding | None:
    """What to say of a call whose result is not finite; `before` is the state of a tensor that it changed in place."""
    path = check.probe.module.path if check.probe.module is not None else ""
    if check.checks.allowed(callee.name, path) or is_explicit((args, kwargs), nan=True):
        return None
    results = tensors_in(result)
    changed = args[0] if changes(callee, args, kwargs) else None
    if callee.in_place:
        results += [tensor for tensor in tensors_in(changed) if not any(one is tensor for one in results)]
    inputs = [one for one in tensors_in((args, without_out(kwargs))) if one is not changed]
    if not inputs and changed is None:  # a factory, or data that is loaded
        return None
    outgoing = [(tensor, state) for tensor in results if (state := state_of(tensor))]
    incoming = [state for tensor in inputs if (state := state_of(tensor))] + ([before] if before else [])
    waiting = waiting_at(check, Reading(check.probe.tape), at)
    if waiting is not None:
        return pass_on(check, at, waiting, outgoing, incoming)
    if is_explicit((args, kwargs), nan=any(state.nan for _, state in outgoing)):
        return None
    if incoming and (earlier := made_before(check, inputs)) is not None:
        return earlier
    for tensor, state in outgoing:
        if not is_new(state, incoming) or is_mask(callee, inputs, tensor, state):
            continue
        is_finite = not incoming and not is_explicit((args, kwargs), nan=False)
        finding = made(check, "nan" if state.nan else "inf", at, tensor, (args, kwargs), is_finite=is_finite)
        if may_heal(check, tensor, state):
            check.waiting.add(at, finding)
            return None
        check.checks.found = True
        return finding
    return came_in(check, at, inputs, path) if incoming else None


def is_new(state: State, incoming: list[State]) -> bool:
    """Whether a result has NaN where no input has, or Inf where all inputs are finite."""
    return not any(each.nan for each in incoming) if state.nan else not incoming


def is_mask(callee: FunctionCallee, inputs: list[Tensor], result: Tensor, state: State) -> bool:
    """Whether -inf comes from the least number of a type, with which scores are masked."""
    return not state.news and (operation(callee.kind, callee.name).family == "conversion" or has_mask(inputs, result))


def may_heal(check: Check, tensor: Tensor, state: State) -> bool:
    """Whether to wait for what comes of a result (waiting.py): it is not a gradient, and none flows through it.

    NaN inside a model hardly ever heals. Outside of one it may be a metric: the mean over a class without samples.
    """
    if tensor.requires_grad or check.probe.backward:
        return False
    return not state.nan or check.probe.module is None


def waiting_at(check: Check, reading: Reading, at: int) -> NonFiniteResult | None:
    """What waits behind the arguments of a call, on the tape or in the past."""
    if not check.waiting:
        return None
    noted = noted_values(reading, at)
    return waiting_behind(check, noted) if reading.tape is check.probe.tape else check.waiting.of_earlier(noted)


def waiting_behind(check: Check, values: list[Value]) -> NonFiniteResult | None:
    """What waits behind some values, through the calls that pass them on unchecked."""
    bad = [value for value in values if (tensor := value()) is None or state_of(tensor)]
    return check.waiting.of(bad) or check.waiting.of(source(check, value)[0] for value in bad)


def pass_on(
    check: Check, at: int, finding: NonFiniteResult, outgoing: list[tuple[Tensor, State]], incoming: list[State]
) -> Finding | None:
    """What waits has come into a call whose result is not finite either: report it if it matters now."""
    reading = Reading(check.probe.tape)
    try:
        if not outgoing:
            return report_waiting(check, finding, "number", reading, at, is_metric=check.checks.trains)
        if any(state.nan and is_new(state, incoming) for _, state in outgoing):
            return report_waiting(check, finding, "nan", reading, at)
        is_in_model = check.probe.module is not None or any(tensor.requires_grad for tensor, _ in outgoing)
        if finding.kind == "nan" and is_in_model:
            return report_waiting(check, finding, "model", reading, at)
    finally:
        reading.close()
    check.nodes.add_unlikely(at, [tensor for tensor, _ in outgoing])
    check.waiting.add(at, finding)
    return None


def report_waiting(
    check: Check, finding: NonFiniteResult, reach: Reach, reading: Reading, at: int, *, is_metric: bool = False
) -> Finding:
    """What waited is reported now: the call at an offset shows it."""
    check.waiting.end(finding)
    check.checks.found = True
    return replace(finding, reach=reach, consumer=reading.call(at), is_metric=is_metric)


def is_explicit(item: Any, depth: int = 0, *, nan: bool) -> bool:
    """Whether a number among the arguments is not finite: the user has written it. An infinity excuses no NaN."""
    if isinstance(item, float):
        return math.isnan(item) or (not nan and math.isinf(item))
    if depth >= MOST_DEPTH or not isinstance(item, (list, tuple, dict)):
        return False
    return any(is_explicit(part, depth + 1, nan=nan) for part in (item.values() if isinstance(item, dict) else item))


def is_written(reading: Reading, value: Value) -> bool:
    """Whether a value was made of nothing but a number that is not finite, as by `torch.full`."""
    at = value.producer
    if at < 0 or not isinstance(reading.callee(at), FunctionCallee) or noted_values(reading, at):
        return False
    return is_explicit((reading.args(at), reading.kwargs(at)), nan=False)


def without_out(kwargs: Any) -> Any:
    """The keyword arguments that are read."""
    return {name: item for name, item in kwargs.items() if name != "out"} if kwargs else {}


def has_mask(inputs: list[Tensor], result: Tensor) -> bool:
    """Whether an argument holds the least number of its type, with which scores are masked."""
    return unnoticed(lambda: any(reaches_least(tensor, result) for tensor in inputs))


def reaches_least(tensor: Tensor, result: Tensor) -> bool:
    """Whether a tensor holds the least number of its type, or of the type of a result."""
    found = floats(tensor)
    if found is None or not found.numel():
        return False
    least = max(torch.finfo(tensor.dtype).min, torch.finfo(result.dtype).min)
    return bool(found.amin().item() <= NEARLY_LEAST * least)


def came_in(check: Check, at: int, inputs: list[Tensor], path: str, *, is_loss: bool = False) -> Finding | None:
    """What to say of a call that only passes on what came in: something, if it came from where nothing was checked.

    Inf that was there before may heal, except in a parameter: it counts once it has come to a loss.
    """
    earlier = made_before(check, inputs)
    if earlier is not None or check.checks.found:
        return earlier
    for tensor in inputs:
        state = state_of(tensor)
        value = check.probe.table.get(id(tensor))
        if value is None or value() is not tensor or not state:
            continue
        if not (state.nan or is_loss or isinstance(value, ParameterValue)):
            continue
        origin, _ = source(check, value)
        if origin.producer >= 0 and not isinstance(check.probe.tape[origin.producer], FunctionCallee):
            return made_unseen(check, origin.producer, tensor, state)
        if origin.producer == GIVEN:
            check.checks.told = True
            return given(check, at, tensor, origin if isinstance(origin, ParameterValue) else value, path)
    return None


def made_before(check: Check, tensors: list[Tensor]) -> Finding | None:
    """What to say of tensors of which a call has made one that is not finite, and was not checked, then."""
    for tensor in tensors:
        value = check.probe.table.get(id(tensor))
        if value is not None and value() is tensor and state_of(tensor):
            value, is_made = source(check, value)
            if is_made and (finding := made_unchecked(check, value, tensor)) is not None:
                return finding
    return None


def source(check: Check, value: Value) -> tuple[Value, bool]:
    """Where the numbers of a value come from, through the calls that were not checked, and whether such a one made it.

    What went into a call and is gone by now was finite, unless it came from a call that was not checked either.
    """
    reading = Reading(check.probe.tape)
    while value.producer >= 0 and not check.is_checked(value.producer):
        noted = noted_values(reading, value.producer)
        bad = [each for each in noted if (tensor := each()) is not None and state_of(tensor)]
        bad += [each for each in noted if each() is None and each.producer in check.pending | check.bad]
        if not bad or bad[0].producer >= value.producer:
            return value, check.can_make(reading.callee(value.producer))
        value = bad[0]
    return value, False


def made_unchecked(check: Check, value: Value, tensor: Tensor) -> Finding | None:
    """A call has made it that was not checked, for it is unlikely to."""
    reading, there = Reading(check.probe.tape), value()
    check.pending.discard(value.producer)
    check.bad.add(value.producer)
    call = reading.call(value.producer)
    reading.close()
    output = there if there is not None else tensor
    state = state_of(output)
    if check.checks.allowed(call.name, call.path) or is_explicit((call.args, call.kwargs), nan=state.nan):
        return None
    noted = noted_values(reading, value.producer)
    given = [each() for each in noted]
    if any(is_written(reading, each) for each in noted if each() is None):
        return None
    alive = [each for each in given if each is not None]
    if not state.news and (len(alive) < len(given) or has_mask(alive, output)):
        return None
    check.checks.found = True
    return made(check, "nan" if state.nan else "inf", value.producer, output, given, is_finite=True)


def made_unseen(check: Check, at: int, tensor: Tensor, state: State) -> Finding | None:
    """A module, or a compiled region, in which no function was seen, has made it, unless it came in there, too."""
    reading = Reading(check.probe.tape)
    noted = noted_values(reading, at)
    if not state.news or any(state_of(each) for value in noted if (each := value()) is not None):
        return None
    check.checks.found = True
    is_finite = all(value() is not None for value in noted)
    return made(check, "nan" if state.nan else "inf", at, tensor, [value() for value in noted], is_finite=is_finite)


def given(check: Check, at: int, tensor: Tensor, value: Value, path: str) -> Finding:
    """What was there before is not finite: the value that a call has got, or the parameter that it was made of."""
    reading = Reading(check.probe.tape)
    try:
        call, there = reading.call(at), value()
        tensor = there if there is not None else tensor
        facts = facts_of(tensor)
        index = first_bad(tensor, nan=facts.stats is not None and facts.stats.nan > 0)
        operand = TensorOperand(facts, parameter_path(check.probe, tensor) or names_at(reading, at).get(id(value), ""))
        return NonFiniteInput(
            phase=call.phase, path=path, call=call, site=call.site, output=facts, index=index, operands=(operand,)
        )
    finally:
        reading.close()


def made(check: Check, kind: FindingKind, at: int, tensor: Tensor, given: Any, *, is_finite: bool) -> NonFiniteResult:
    """The finding of a call that produced NaN or Inf; `is_finite` says that all that it was given was finite."""
    reading = Reading(check.probe.tape)
    try:
        call = reading.call(at)
        output = facts_of(tensor)
        index = first_bad(tensor, nan=kind == "nan")
        tensors = tensors_in(given)
        found = operands(check.probe, reading, at, tensors, changed=tensor)
        positive = any(state_of(each).inf for each in tensors if each is not tensor)
        return NonFiniteResult(
            kind=kind,
            phase=call.phase,
            path=call.path,
            call=call,
            site=call.site,
            output=output,
            index=index,
            operands=tuple(found),
            modules=module_chain(reading, at),
            has_finite_inputs=is_finite,
            has_positive_infinity=positive,
        )
    finally:
        reading.close()
