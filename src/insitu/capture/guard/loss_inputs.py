"""What the losses of a backward pass got: the call that computed the input of each, read from the tape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.cut import producers
from insitu.capture.guard.definition import definition_of
from insitu.capture.tensors import Value
from insitu.trace.loss_input import LOSSES, SUSPICIOUS, LossInput

MOST_CALLS = 12  # behind the tensors of a backward pass: a loss is near them
MOST_MOVES = 20


def loss_inputs(reading: Reading, losses: Iterable[Value]) -> Iterator[LossInput]:
    """The losses behind the tensors of a backward pass that a mistake is known for, and the calls before them.

    To decode a call takes time: only calls that can be a mistake are decoded.
    """
    for count, at in enumerate(producers(reading, losses, set())):
        if count == MOST_CALLS:
            return
        if reading.operation(at).base in LOSSES:
            source = _source(reading, at)
            if source is not None and reading.operation(source).base in SUSPICIOUS:
                yield LossInput(reading.call(at), reading.call(source), definition_of(reading, source))


def _source(reading: Reading, at: int) -> int | None:
    """The call that computed the first argument of a call, behind calls that only move values."""
    for _ in range(MOST_MOVES):
        found = next(iter(values(reading.args(at)[:1])), None)
        producer = reading.producer(found) if found is not None else None
        if producer is None:
            return None
        at = producer
        if not reading.operation(at).is_move:
            return at
    return None
