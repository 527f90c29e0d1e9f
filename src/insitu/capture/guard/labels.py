"""Labels of which a loss ignores all: the call that cut off those that count."""

from __future__ import annotations

from typing import Any

from insitu.capture.explain.reading import Reading, values
from insitu.capture.tensors import Value
from insitu.trace.event import Call, TensorFacts, tensors
from insitu.trace.loss_input import IGNORING, ignored_label

MOST_CALLS = 200


def cut_labels(reading: Reading, at: int, value: Value, facts: TensorFacts) -> Call | None:
    """The call farthest from a loss that cut a part off the labels, where the loss ignores all that are left."""
    if reading.operation(at).base not in IGNORING or facts.stats is None:
        return None
    ignored = ignored_label(reading.kwargs(at))
    if not facts.stats.min == facts.stats.max == ignored:
        return None
    cuts = [each for each in calls_behind(reading, value) if is_shorter(reading, each)]
    if cuts:
        return reading.call(cuts[-1])
    return None


def calls_behind(reading: Reading, value: Value) -> list[int]:
    """The calls that a value comes from, the nearest first."""
    found: list[int] = []
    waiting = [value]
    for each in waiting:  # it grows meanwhile
        at = reading.producer(each)
        if at is not None and at not in found and len(found) < MOST_CALLS:
            found.append(at)
            waiting += values(reading.args(at))
    return found


def is_shorter(reading: Reading, at: int) -> bool:
    """Whether a call takes a part of a tensor by an index."""
    if reading.operation(at).base != "getitem":
        return False
    before, after = reading.plain(reading.args(at)), reading.plain(reading.result(at))
    return bool(shape_of(before) != shape_of(after))


def shape_of(item: Any) -> Any:
    """The shape of the first tensor in plain data; None if there is none."""
    return next((facts.shape for facts in tensors(item) if isinstance(facts, TensorFacts)), None)
