"""Where the graph between a loss and its parameters is cut: a call that takes a gradient and whose result has none."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.facts import noted_values
from insitu.capture.tensors import Value
from insitu.trace.event import Call


def cut_before(reading: Reading, losses: Iterable[Value], missing: Container[int]) -> Call | None:
    """The call nearest to the losses behind which parameters get no gradient; None where no call on the tape cuts.

    `missing` holds the ids of those parameters.
    """
    unrelated: set[int] = set()
    for at in producers(reading, losses):
        taken = [value for value in noted_values(reading, at) if value.requires_grad]
        is_cut = taken and not any(value.requires_grad for value in values(reading.result(at)))
        if is_cut and leads_to(reading, taken, missing, unrelated):
            return reading.call(at)
    return None


def producers(reading: Reading, found: Iterable[Value]) -> Iterator[int]:
    """The calls that some values come from, over any distance, the nearest first."""
    waiting = list(found)
    met: set[int] = set()
    for value in waiting:  # it grows meanwhile
        at = reading.producer(value)
        if at is not None and at not in met:
            met.add(at)
            waiting += noted_values(reading, at)
            yield at


def leads_to(reading: Reading, found: list[Value], wanted: Container[int], unrelated: set[int]) -> bool:
    """Whether some values come from wanted tensors; `unrelated` are calls that are known not to."""
    if any(id(value()) in wanted for value in found):
        return True
    met: set[int] = set()
    waiting = list(found)
    while waiting:
        at = reading.producer(waiting.pop())
        if at is None or at in met or at in unrelated:
            continue
        met.add(at)
        taken = noted_values(reading, at)
        if any(id(value()) in wanted for value in taken):
            return True
        waiting += taken
    unrelated |= met
    return False
