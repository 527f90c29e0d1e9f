"""What must be true of every trace, whatever the program did."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import insitu
from insitu import view as views
from insitu.trace.event import Call, Event
from insitu.trace.trace import Trace


def check_trace(trace: Trace, folder: Path) -> None:
    """Its events fit together, every view shows it, a file brings it back, and it differs from itself in nothing."""
    check_events(trace)
    troubles = [mark.text for mark in trace.marks if mark.kind == "trouble"]
    assert [text for text in troubles if "RecursionError" not in text] == []  # the stack of the program was full
    for view in sorted(views.VIEWS):
        insitu.show(trace, view=view, file=io.StringIO())
    insitu.save(trace, folder / "trace.h5", overwrite=True)
    loaded = insitu.load(folder / "trace.h5")
    assert [data(event) for event in loaded.events] == [data(event) for event in trace.events]
    assert insitu.compare(trace, trace).same


def check_events(trace: Trace) -> None:
    """Parents enclose their children, and whoever made a tensor came before those that were given it."""
    known: dict[int, Event] = {}
    for event in trace.events:
        assert event.id not in known
        known[event.id] = event
    for event in trace.events:
        if event.parent is not None:
            check_inside(event, known[event.parent])
        if isinstance(event, Call):
            check_call(event, known)


def check_inside(event: Event, parent: Event) -> None:
    """An event lies in the call that it was made in."""
    assert isinstance(parent, Call), (event, parent)
    assert parent.id < event.id and parent.thread == event.thread, (event, parent)
    assert parent.start <= event.start, (event, parent)
    if parent.duration is not None:
        assert end_of(event) <= end_of(parent), (event, end_of(event), parent, end_of(parent))


def end_of(event: Event) -> int:
    """When an event was over, or at least when it had begun."""
    return event.start + ((event.duration or 0) if isinstance(event, Call) else 0)


def check_call(call: Call, known: dict[int, Event]) -> None:
    """What a call says of itself agrees."""
    assert call.duration is None or call.duration >= 0, call
    assert call.raised is None or (call.result is None and call.duration is not None), call
    assert call.phase == "backward" or call.forward is None
    assert call.forward is None or isinstance(known[call.forward], Call)
    for tensor in call.inputs:
        if tensor.producer is not None:
            producer = known[tensor.producer]
            assert isinstance(producer, Call) and producer.start <= call.start, (call, tensor, producer)
    for tensor in call.outputs:
        assert tensor.producer is None or tensor.producer in known, (call, tensor)


def data(item: Any) -> Any:
    """Events, facts, sites and containers as plain data; facts by their numbers, as a file keeps them apart."""
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        fields = {field.name: data(getattr(item, field.name)) for field in dataclasses.fields(item)}
        return type(item).__name__, fields
    if isinstance(item, (list, tuple)):
        return type(item).__name__, [data(part) for part in item]
    if isinstance(item, dict):
        return {key: data(part) for key, part in item.items()}
    return repr(item)
