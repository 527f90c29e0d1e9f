"""Where NaN or Inf entered that no call has made: a number that was written down, or data that was loaded.

That is no news by itself, for masks are made so. It is when a loss is not finite, and nothing else explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.reading import Reading
from insitu.capture.guard.cause import came_in, is_explicit, is_written, report_waiting, waiting_at
from insitu.capture.guard.facts import facts_of, noted_values
from insitu.capture.guard.values import first_bad, state_of
from insitu.capture.tensors import Value
from insitu.trace.findings import Finding, NonFiniteLiteral, NonFiniteLoss
from insitu.trace.operation import operation

if TYPE_CHECKING:
    from insitu.capture.guard.check import Check

SURE, WRITTEN, UNFILLED = range(3)


def come_to_loss(check: Check, at: int, losses: list[Tensor]) -> Finding | None:
    """What to say of a loss that is not finite when its backward pass begins."""
    waiting = waiting_at(check, Reading(check.probe.tape), at)
    if waiting is not None:
        check.nodes.spoil()
        return report_waiting(check, waiting, "loss", Reading(check.probe.tape), at)
    finding = came_in(check, at, losses, "", is_loss=True)
    if finding is not None or check.checks.found:
        return finding
    loss = next((each for each in losses if state_of(each)), None)
    value = check.probe.table.get(id(loss))
    if loss is None or value is None or value() is not loss:
        return None
    check.nodes.spoil()
    nan = state_of(loss).nan
    entry = entry_of(check, value, nan=nan)
    if entry is None and (check.checks.told or check.checks.allow):  # who made it was told, or need not be
        return None
    reading = Reading(check.probe.tape)
    try:
        call = reading.call(at if entry is None else entry)
        if check.checks.allowed(call.name, call.path):
            return None
        check.checks.told = True
        kind = NonFiniteLoss if entry is None else NonFiniteLiteral
        output, index = facts_of(loss), first_bad(loss, nan=nan)
        return kind(path=call.path, call=call, site=call.site, output=output, index=index)
    finally:
        reading.close()


def entry_of(check: Check, value: Value, *, nan: bool) -> int | None:
    """The call by which what is not finite in a value entered; None where that is not known.

    It is looked for backwards, first through what is known not to be finite.
    """
    reading = Reading(check.probe.tape)
    waiting, met = [(value.producer, True)], set()
    found: dict[int, int] = {}
    while waiting and SURE not in found:
        at, is_sure = waiting.pop()
        if at < 0 or at in met:
            continue
        met.add(at)
        noted = [each for each in noted_values(reading, at) if each.producer < at]
        known = [(each.producer, True) for each in noted if is_bad(check, reading, each)]
        if not known and (doubt := doubt_of(reading, at, is_sure=is_sure, nan=nan)) is not None:
            found.setdefault(doubt, at)
        waiting += known or [(each.producer, False) for each in noted if may_be_bad(check, each)]
    return found[min(found)] if found else None


def is_bad(check: Check, reading: Reading, value: Value) -> bool:
    """Whether a value is known not to be finite."""
    tensor = value()
    if tensor is None or check.probe.table.get(id(tensor)) is not value:  # gone, or changed in place since
        return value.producer in check.bad or (tensor is None and is_written(reading, value))
    return bool(state_of(tensor))


def may_be_bad(check: Check, value: Value) -> bool:
    """Whether nobody has looked at a value, and nobody can any more."""
    tensor = value()
    return value.producer in check.pending if tensor is None else check.probe.table.get(id(tensor)) is not value


def doubt_of(reading: Reading, at: int, *, is_sure: bool, nan: bool) -> int | None:
    """How doubtful it is that a call brings in what is not finite; None if it brings in nothing of its own.

    `is_sure` says that its result is not finite. An infinity that is written down is no NaN, but may become one.
    """
    callee, given = reading.callee(at), (reading.args(at), reading.kwargs(at))
    if not isinstance(callee, FunctionCallee):
        return None
    if is_explicit(given, nan=nan) or (is_sure and not noted_values(reading, at)):
        return SURE
    if is_explicit(given, nan=False):
        return WRITTEN
    return UNFILLED if operation(callee.kind, callee.name).is_uninitialized else None
