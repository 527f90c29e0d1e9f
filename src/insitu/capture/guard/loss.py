"""The finding of a loss that is not finite when its backward pass begins.

Where no call produced the NaN or Inf, a number that is written in the program, or data, introduced it. That is not news
by itself, for masks are written so: it is when a loss is not finite, and nothing else explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from insitu.capture.explain.reading import Reading
from insitu.capture.finite import finiteness_of, first_bad, is_finite
from insitu.capture.guard.facts import facts_of
from insitu.capture.guard.forward import incoming_finding, report_waiting, waiting_at
from insitu.capture.guard.history import TapeHistory
from insitu.trace.findings import Finding, NonFiniteLiteral, NonFiniteLoss
from insitu.trace.origin import entry_call, union

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks


def loss_finding(check: ProbeChecks, at: int, losses: list[Tensor]) -> Finding | None:
    """The finding of losses of which one is not finite; the call at an offset runs the backward pass."""
    waiting = waiting_at(check, Reading(check.probe.tape), at)
    if waiting is not None:
        check.nodes.spoil()
        return report_waiting(check, waiting, "loss", Reading(check.probe.tape), at)
    is_scaled_too_far = check.checks.is_scaled and not union(map(finiteness_of, losses)).nan
    if is_scaled_too_far:
        check.nodes.spoil()
        return None
    finding = incoming_finding(check, at, losses, "", is_loss=True)
    if finding is not None or check.checks.has_found:
        return finding
    loss = next((each for each in losses if not is_finite(each)), None)
    if loss is not None:
        return entry_finding(check, at, loss)
    return None


def entry_finding(check: ProbeChecks, at: int, loss: Tensor) -> Finding | None:
    """The finding of the call that introduced the NaN or Inf of a loss or, where it is not known, of the loss."""
    value = check.value_of(loss)
    if value is None:
        return None
    check.nodes.spoil()
    nan = finiteness_of(loss).nan
    entry = entry_call(TapeHistory(check), value, nan=nan)
    may_be_known = check.checks.has_incoming or bool(check.checks.allow)  # the cause was reported, or is allowed
    if entry is None and may_be_known:
        return None
    with Reading(check.probe.tape) as reading:
        call = reading.call(at if entry is None else entry)
        if check.checks.is_allowed(call.name, call.path):
            return None
        check.checks.has_incoming = True
        kind = NonFiniteLoss if entry is None else NonFiniteLiteral
        output, index = facts_of(loss), first_bad(loss, nan=nan)
        return kind(path=call.path, call=call, site=call.site, output=output, index=index)
