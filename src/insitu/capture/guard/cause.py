"""Why something is not finite, and whether that is news: only the call that made it so of finite numbers is.

This runs when a sum was not finite, which is rare: it may take its time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C import DisableTorchFunction, _current_autograd_node, _DisableTorchDispatch

from insitu.capture.calls import FunctionNote
from insitu.capture.explain.reading import Reading, values
from insitu.capture.explain.scene import LIBRARIES
from insitu.capture.guard.facts import (
    facts_of,
    module_chain,
    names_at,
    noted_values,
    operands,
    parameter_path,
    saved,
    saved_tensors,
)
from insitu.capture.guard.values import State, first_bad, floats, state_of, tensors_in
from insitu.capture.guard.ways import changes
from insitu.capture.segment import records
from insitu.capture.sites import Sites, is_hidden
from insitu.capture.tape import NODE_COUNT, NODES, RESULT, Tape
from insitu.capture.tensors import GIVEN, ParameterValue, Value
from insitu.trace.event import Call, Site
from insitu.trace.finding import Finding, FindingKind, Operand

if TYPE_CHECKING:
    from insitu.capture.guard.check import Check

CONVERSIONS = frozenset({"to", "type", "type_as", "half", "bfloat16", "float", "double"})
# How near the least number of a type a mask comes that is added to scores.
NEARLY_LEAST = 0.9
MOST_DEPTH = 4


def cause(
    check: Check, note: FunctionNote, at: int, args: Any, kwargs: Any, result: Any, before: State | None
) -> Finding | None:
    """What to say of a call whose result is not finite; `before` is the state of a tensor that it changed in place."""
    path = check.probe.module.path if check.probe.module is not None else ""
    if check.checks.allowed(note.name, path):
        return None
    results = tensors_in(result)
    changed = args[0] if changes(note, args, kwargs) else None
    if note.in_place:
        results += [tensor for tensor in tensors_in(changed) if not any(one is tensor for one in results)]
    inputs = [one for one in tensors_in((args, without_out(kwargs))) if one is not changed]
    if not inputs and changed is None:  # a factory, or data that is loaded
        return None
    outgoing = [(tensor, state) for tensor in results if (state := state_of(tensor))]
    if is_explicit((args, kwargs), nan=any(state.nan for _, state in outgoing)):
        return None
    incoming = [state for tensor in inputs if (state := state_of(tensor))] + ([before] if before else [])
    waiting = waited_for(check, inputs)
    if waiting is not None:
        return come_of(check, at, waiting, outgoing)
    if incoming and (earlier := made_before(check, inputs)) is not None:
        return earlier
    for tensor, state in outgoing:
        kind: FindingKind = "nan" if state.nan else "inf"
        if any(each.nan for each in incoming) if state.nan else incoming:
            continue
        if not state.news and (note.name.rpartition(".")[2] in CONVERSIONS or has_mask(inputs, tensor)):
            continue
        finding = made(check, kind, at, tensor, (args, kwargs))
        if not state.news and not tensor.requires_grad and is_of_a_library(finding.site):
            check.waiting[at] = finding
            return None
        check.checks.found = True
        return finding
    return came_in(check, at, inputs, path) if incoming else None


def is_of_a_library(site: Site | None) -> bool:
    """Whether a line is none of the user's own: what it does with -inf is mostly well thought out."""
    return site is not None and site.file.startswith(LIBRARIES)


def waited_for(check: Check, inputs: list[Tensor]) -> Finding | None:
    """What was found and not told, if it comes in here."""
    if not check.waiting:
        return None
    known = [check.probe.table.get(id(tensor)) for tensor in inputs if state_of(tensor)]
    makers = [source(check, value)[0].producer for value in known if value is not None]
    return next((check.waiting[maker] for maker in makers if maker in check.waiting), None)


def come_of(check: Check, at: int, finding: Finding, outgoing: list[tuple[Tensor, State]]) -> Finding | None:
    """What was found is told now, if more than -inf has come of it, or a gradient is to."""
    if not any(state.news or tensor.requires_grad for tensor, state in outgoing):
        check.waiting[at] = finding
        return None
    check.checks.found = True
    return finding


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
    if at < 0 or not isinstance(reading.note(at), FunctionNote) or noted_values(reading, at):
        return False
    return is_explicit((reading.args(at), reading.kwargs(at)), nan=False)


def without_out(kwargs: Any) -> Any:
    """The keyword arguments that are read."""
    return {name: item for name, item in kwargs.items() if name != "out"} if kwargs else {}


def has_mask(inputs: list[Tensor], result: Tensor) -> bool:
    """Whether an argument holds the least number of its type, with which scores are masked."""
    with DisableTorchFunction(), _DisableTorchDispatch():
        for tensor in inputs:
            found = floats(tensor)
            if found is not None and found.numel():
                least = max(torch.finfo(tensor.dtype).min, torch.finfo(result.dtype).min)
                if found.amin().item() <= NEARLY_LEAST * least:
                    return True
    return False


def came_in(check: Check, at: int, inputs: list[Tensor], path: str) -> Finding | None:
    """What to say of a call that only passes on what came in: something, if it came from where nothing was checked."""
    earlier = made_before(check, inputs)
    if earlier is not None or check.checks.found:
        return earlier
    for tensor in inputs:
        state = state_of(tensor)
        value = check.probe.table.get(id(tensor))
        if value is None or value() is not tensor or not (state.news or (state and isinstance(value, ParameterValue))):
            continue
        origin, _ = source(check, value)
        if origin.producer >= 0 and not isinstance(check.probe.tape[origin.producer], FunctionNote):
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
            return value, check.can_make(reading.note(value.producer))
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
    return made(check, "nan" if state.nan else "inf", value.producer, output, given)


def made_unseen(check: Check, at: int, tensor: Tensor, state: State) -> Finding | None:
    """A module, or a compiled region, in which no function was seen, has made it, unless it came in there, too."""
    reading = Reading(check.probe.tape)
    noted = noted_values(reading, at)
    if not state.news or any(state_of(each) for value in noted if (each := value()) is not None):
        return None
    check.checks.found = True
    return made(check, "nan" if state.nan else "inf", at, tensor, [value() for value in noted])


def given(check: Check, at: int, tensor: Tensor, value: Value, path: str) -> Finding:
    """What was there before is not finite: the value that a call has got, or the parameter that it was made of."""
    reading = Reading(check.probe.tape)
    try:
        call, there = reading.call(at), value()
        tensor = there if there is not None else tensor
        facts = facts_of(tensor)
        index = first_bad(tensor, nan=facts.stats is not None and facts.stats.nan > 0)
        operand = Operand(facts, parameter_path(check.probe, tensor) or names_at(reading, at).get(id(value), ""))
        return Finding("given", call.phase, path, call, call.site, facts, index, (operand,))
    finally:
        reading.close()


def made(check: Check, kind: FindingKind, at: int, tensor: Tensor, given: Any) -> Finding:
    """The finding of a call that made NaN or Inf of what it was given."""
    reading = Reading(check.probe.tape)
    try:
        call = reading.call(at)
        output = facts_of(tensor)
        index = first_bad(tensor, nan=kind == "nan")
        tensors = tensors_in(given)
        found = operands(check.probe, reading, at, tensors, changed=tensor)
        positive = any(state_of(each).inf for each in tensors if each is not tensor)
        details = {"modules": module_chain(reading, at), "positive": positive}
        return Finding(kind, call.phase, call.path, call, call.site, output, index, tuple(found), None, details)
    finally:
        reading.close()


def gradient_cause(check: Check, bad: Tensor, *, given: bool, entered: State) -> Finding | None:
    """The finding of an autograd node that made NaN or Inf, or got it (`given`) from where nothing was checked.

    `entered` is what was not finite in the gradient that it got.
    """
    node: Any = _current_autograd_node()
    state, name = state_of(bad), node.name()
    kind: FindingKind = "nan" if state.nan else "inf"
    output, index = facts_of(bad), first_bad(bad, nan=state.nan)
    tape, at = place_of(check, node._sequence_nr())
    if at is None:
        if check.checks.found:
            return None
        check.checks.found = True
        kind, call = "given" if given else kind, unseen_call(check.probe.tape, node._sequence_nr())
        site = definition_of(node) or (call.site if call is not None else None)
        path = call.path if call is not None else ""
        return Finding(kind, "backward", path, call, site, output, index, tuple(saved(node)), name)
    reading = Reading(tape)
    try:
        if given:
            user = unchecked_user(check, reading, at)
            kind, at, node, name = (kind, user, None, "autograd") if user is not None else ("given", at, node, name)
        call = reading.call(at)
        alive = [tensor for value in noted_values(reading, at) if (tensor := value()) is not None]
        if check.checks.allowed(call.name, call.path):
            return None
        passed = follows(node, alive, nan=state.nan and not check.checks.found)
        if passed:
            if check.checks.found or check.checks.told:
                return None
            check.checks.told, kind = True, "given"
        check.checks.found = check.checks.found or kind != "given" or given
        found = operands(check.probe, reading, at, alive)
        if any(operand.facts.stats is None for operand in found):
            found += saved(node)
        details = {"modules": module_chain(reading, at), "follows": passed}
        details["entered"] = bool(entered) and kind != "given" and node is not None
        return Finding(kind, "backward", call.path, call, call.site, output, index, tuple(found), name, details)
    finally:
        reading.close()


def definition_of(node: Any) -> Site | None:
    """Where the user has written the backward pass of a node."""
    written = getattr(getattr(type(node), "_forward_cls", None), "backward", None)
    code = getattr(written, "__code__", None)
    return Sites().definition(code) if code is not None and not is_hidden(code.co_filename) else None


def unseen_call(tape: Tape, number: int) -> Call | None:
    """The compiled region, or the module in which nothing was seen, that made a node that no function has made."""
    found = None
    for _, at, parent in records(tape):
        if parent is None and tape[at + NODES] >= NODE_COUNT and tape[at + NODES] % NODE_COUNT > number:
            break
        if parent is None and any(value.producer == at for value in values(tape[at + RESULT])):
            found = at if not isinstance(tape[at], FunctionNote) else found
    return Reading(tape).call(found) if found is not None else None


def place_of(check: Check, number: int) -> tuple[Tape, int | None]:
    """The tape, and the call on it, that made the autograd node with a number."""
    at = made_node(check.probe.tape, number)
    return (check.probe.tape, at) if at is not None else (check.past, made_node(check.past, number))


def unchecked_user(check: Check, reading: Reading, at: int) -> int | None:
    """The call that used the result of another one, and whose gradients are not checked."""
    results = {id(value) for value in values(reading.result(at))}
    later = (other for other in reading.before(len(reading.tape)) if other > at)
    unchecked = (other for other in later if not check.has_hooks(reading.note(other)))
    uses = (other for other in unchecked if any(id(value) in results for value in noted_values(reading, other)))
    return next(uses, None)


def follows(node: Any, operands: list[Tensor], *, nan: bool) -> bool:
    """Whether a gradient is not finite because the forward pass was not; with `nan` only NaN explains it."""
    states = [state_of(tensor) for tensor in (*operands, *(tensor for _, tensor in saved_tensors(node)))]
    return any(state.nan if nan else state for state in states)


def made_node(tape: Tape, number: int) -> int | None:
    """The innermost call on a tape that made the node with a number."""
    found: int | None = None
    for _, at, parent in records(tape):
        if parent is None and tape[at + NODES] >= NODE_COUNT:
            count, first = divmod(tape[at + NODES], NODE_COUNT)
            if first <= number < first + count:
                found = at
    return found
