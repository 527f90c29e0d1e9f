"""A model of 70 billion parameters on the meta device: time, and the memory of an event."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import insitu
from benchmarks.measure import Effort, Row, at_most, in_turn
from benchmarks.models import Subject, llama


def rows(effort: Effort) -> Iterator[Row]:
    """Traced against untraced, and bytes an event."""
    subject = llama()

    def traced() -> insitu.Trace:
        with insitu.record(subject.model, level="aten") as trace:
            subject.forward()
        return trace

    times = in_turn({"alone": subject.forward, "traced": traced}, effort.repeats(12))
    yield Row("everything on / untraced, meta Llama-70B", times.ratio("traced", "alone"), at_most(1.5))
    yield from memory(subject)


def memory(subject: Subject) -> Iterator[Row]:
    """What a second pass adds to a session, and what a session of one pass holds with the notes of all modules."""
    subject.forward()
    tracemalloc.start(1)
    try:
        before = in_use()
        with insitu.record(subject.model, level="aten") as trace:
            subject.forward()
            first = in_use()
            subject.forward()
            second = in_use()
        total = in_use() - before
    finally:
        tracemalloc.stop()
    events = len(trace.events)
    modules = len(trace.modules)
    note = f"{events // 2:,} events a pass"
    yield Row("bytes an event, meta Llama-70B, second pass", [(second - first) / (events / 2)], at_most(300), "B", note)
    note = f"with what is noted once for each of {modules:,} modules"
    yield Row("bytes an event, meta Llama-70B, whole session of two", [total / events], unit="B", note=note)


def in_use() -> int:
    """The bytes that Python holds."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
