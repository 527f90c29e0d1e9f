"""Where gradients begin to differ in two runs whose values agree: found from the loss backwards."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.compare.blame import Lineage
from insitu.trace.compare.closeness import Closeness
from insitu.trace.compare.units import Unit
from insitu.trace.event import Call, TensorFacts

Apart = tuple[TensorFacts, Closeness]


def parting_gradient(units: list[Unit], lineage: Lineage) -> list[int]:
    """The number of the unit that is the cause, if there is one; it and all that follows from it are marked.

    Gradients flow from the last call to the first. So in the first step that shows a difference, the last call whose
    output has another gradient is looked for: what uses that output is the cause.
    """
    calls = [unit for unit in units if unit.matched and unit.shown and type(unit.a[0].event) is Call]
    apart = {unit.number: found for unit in calls if (found := _apart(unit, lineage, made=True))}
    made = bool(apart)
    # A tensor that was given has the sum of what its users pass back: it tells only if nothing else does.
    apart = apart or {unit.number: found for unit in calls if (found := _apart(unit, lineage, made=False))}
    if not apart:
        return []
    first = _place(units[min(apart)])
    last = units[max(number for number in apart if _place(units[number]) == first)]
    tensor, closeness = apart[last.number]
    cause, text = _user(last, tensor, calls) if made else (last, _told(last))
    for number in (*apart, cause.number):
        units[number].roots, units[number].differs = frozenset((cause.number,)), True
    cause.kind, cause.notes = "gradient", (*cause.notes, text)
    cause.delta, cause.measure, cause.certainty = closeness.delta, f"gradient {closeness.measure}", closeness.certainty
    return [cause.number]


def _place(unit: Unit) -> tuple[int, int]:
    return unit.a[0].event.rank, unit.a[0].event.step


def _apart(unit: Unit, lineage: Lineage, *, made: bool) -> Apart | None:
    """The first tensor whose gradient differs: of those that a pair of calls made, or else that both were given."""
    a, b = unit.a[0].event, unit.b[0].event
    assert type(a) is Call and type(b) is Call
    for left, right in zip(*((a.outputs, b.outputs) if made else (a.inputs, b.inputs)), strict=False):
        if left.grad is None or right.grad is None or lineage.maker(0, left) is not (unit if made else None):
            continue
        if lineage.close(left, right).same is False:  # other calls make up for it, and so for its gradient
            continue
        found = lineage.close(left.grad, right.grad)
        if found.same is False:
            return left, found
    return None


def _user(last: Unit, tensor: TensorFacts, calls: Iterable[Unit]) -> tuple[Unit, str]:
    """The call that passes another gradient back to a tensor; the last one, if several may do so."""
    users = [unit for unit in calls if unit.number > last.number and _uses(unit, tensor)]
    if not users:
        return last, "the gradient of its output differs, and no call in both runs uses that"
    known = [unit for unit in users if _knows(unit)]
    cause = (known or users)[-1]
    others = len(users) - 1
    more = f"; so may {others} other call{'s' * (others != 1)} that use{'s' * (others == 1)} it" if others else ""
    return cause, _told(cause) + more


def _uses(unit: Unit, tensor: TensorFacts) -> bool:
    event = unit.a[0].event
    return type(event) is Call and any(facts is tensor for facts in event.inputs)


def _told(unit: Unit) -> str:
    if _knows(unit):
        return "its output's gradient agrees, that of its input differs"
    return "the gradient of its input differs, that of its output is not known"


def _knows(unit: Unit) -> bool:
    """Whether the gradient of what a call makes is known."""
    event = unit.a[0].event
    return type(event) is Call and any(facts.grad is not None for facts in event.outputs)
