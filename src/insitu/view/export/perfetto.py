"""Perfetto and chrome://tracing: calls as bars on the lane of their thread, and arrows for the tensors between them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

from insitu.errors import SubjectError
from insitu.trace.costs import memory
from insitu.trace.counter import count_progress
from insitu.trace.event import Call, Event, Mark, Variable
from insitu.trace.trace import Trace
from insitu.view.export.graph import call_name, code_at, operations, place
from insitu.view.missing_text import about_texts
from insitu.view.value import result, safe, short, value_text

TraceEvent = dict[str, Any]
MOST_TEXT = 400  # characters of the facts about a bar


def pieces(trace: Trace) -> Iterator[str]:
    """The trace as a timeline, in the JSON of the Trace Event Format: a process for each rank, times in microseconds.

    Each piece is made when it is asked for: all of the text takes many times the memory of the trace.

    >>> text = "".join(pieces(Trace([Call(0, None, "function", "torch.ones", duration=2500)])))
    >>> [(row["name"], row["ts"], row["dur"]) for row in json.loads(text)["traceEvents"] if row["ph"] == "X"]
    [('torch.ones', 0.0, 2.5)]
    """
    events = trace.events
    calls = _calls(events)
    has_times = any(call.duration is not None for call in calls)
    if calls and not has_times:
        raise SubjectError(
            "a timeline needs times, and this trace has none: export the .h5 file of the run, not the .trace file"
        )
    about = {safe(name): safe(text) for name, text in about_texts(trace.about).items()}
    lanes = _Lanes(events)
    # No "displayTimeUnit": some readers take "ns" to mean that the times themselves are nanoseconds.
    yield f'{{"otherData":{_json(about)},"traceEvents":['
    comma = ""
    for row in chain(lanes.names(about.get("subject", "insitu")), _rows(lanes, _Arrows(calls))):
        yield comma + _json(row)
        comma = ","
    yield "]}"


_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode


class _Lanes:
    """The events by time, and the lane of each: its thread, or one beside it.

    Bars of a lane must be nested or apart: a reader drops a bar that overlaps, such as a generator that waits.
    """

    def __init__(self, events: list[Event]) -> None:
        self.ends = _ends(events)
        self.order = sorted(events, key=lambda event: (event.start, event.id))
        self.of: dict[int, int] = {}
        self._beside: dict[tuple[int, int, int], int] = {}
        self._threads = sorted({(event.rank, event.thread) for event in events})
        spare = 1 + max((thread for _, thread in self._threads), default=0)
        stacks: defaultdict[tuple[int, int], list[list[int]]] = defaultdict(list)
        for event in self.order:
            number = _fitting(stacks[event.rank, event.thread], event.start, self.ends[event.id])
            self.of[event.id] = event.thread
            if number:
                place = (event.rank, event.thread, number)
                self.of[event.id] = self._beside.setdefault(place, spare + len(self._beside))

    def row(self, phase: str, name: str, event: Event, **more: Any) -> TraceEvent:
        """An entry at the start of an event, on its lane."""
        lane = self.of[event.id]
        return {"ph": phase, "name": name, "pid": event.rank, "tid": lane, "ts": event.start / 1000, **more}

    def names(self, subject: str) -> Iterator[TraceEvent]:
        """The names of ranks and lanes."""
        for rank in sorted({rank for rank, _ in self._threads}):
            yield _named("process_name", rank, 0, f"{subject}, rank {rank}")
        for rank, thread in self._threads:
            yield _named("thread_name", rank, thread, f"thread {thread}")
        for (rank, thread, _), lane in self._beside.items():
            yield _named("thread_name", rank, lane, f"thread {thread}, overlapping")


def _named(what: str, rank: int, lane: int, name: str) -> TraceEvent:
    return {"ph": "M", "name": what, "pid": rank, "tid": lane, "args": {"name": name}}


def _ends(events: list[Event]) -> dict[int, int]:
    """When each event ended; a call that never ended has the end of the last event inside."""
    ends = {event.id: event.start for event in events}
    unfinished: set[int] = set()
    for call in _calls(events):
        if call.duration is None:
            unfinished.add(call.id)
        else:
            ends[call.id] += call.duration
    for event in reversed(events):
        if event.parent in unfinished:
            ends[event.parent] = max(ends[event.parent], ends[event.id])
    return ends


def _calls(events: list[Event]) -> list[Call]:
    return [event for event in events if isinstance(event, Call)]


def _fitting(stacks: list[list[int]], start: int, end: int) -> int:
    """The number of the first stack of ends in which this bar is inside another bar or after it."""
    for number, stack in enumerate(stacks):
        while stack and stack[-1] <= start:
            stack.pop()
        is_fitting = not stack or end <= stack[-1]
        if is_fitting:
            stack.append(end)
            return number
    stacks.append([end])
    return len(stacks) - 1


class _Arrows:
    """Arrows from the producer of a tensor to its consumers, and from a call to its backward calls."""

    def __init__(self, calls: list[Call]) -> None:
        self.inner = {call.id: call for call in operations(calls)}
        self._leaving: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        self._coming: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        starts = {call.id: call.start for call in calls}
        count = 0
        for source, target, kind in self._pairs(calls):
            if source not in starts or starts[source] > target.start:
                continue
            self._leaving[source].append((count, kind))
            self._coming[target.id].append((count, kind))
            count += 1

    def _pairs(self, calls: list[Call]) -> Iterator[tuple[int, Call, str]]:
        for call in calls:
            if call.forward is not None:
                yield call.forward, call, "backward"
        for call in self.inner.values():
            makers = dict.fromkeys(facts.producer for facts in call.inputs)
            makers.pop(call.id, None)
            yield from ((maker, call, "tensor") for maker in makers if maker is not None)

    def rows(self, call: Call, lanes: _Lanes) -> Iterator[TraceEvent]:
        """The arrows that leave this call and those that come to it; their numbers must be integers."""
        for number, kind in self._leaving.get(call.id, ()):
            yield lanes.row("s", kind, call, cat=kind, id=number)
        for number, kind in self._coming.get(call.id, ()):
            yield lanes.row("f", kind, call, cat=kind, id=number, bp="e")


def _rows(lanes: _Lanes, arrows: _Arrows) -> Iterator[TraceEvent]:
    """The entries by time; arrows follow their bar at once, because a reader binds them to the bar that began last."""
    titled: set[tuple[int, int]] = set()
    for event in count_progress(lanes.order, len(lanes.order), "writing"):
        step = (event.rank, event.step)
        if step not in titled:
            titled.add(step)
            yield lanes.row("i", f"step {event.step}", event, cat="step", s="p")
        if isinstance(event, Call):
            yield from _call_rows(event, lanes, arrows)
        else:
            yield from _moment(event, lanes)


def _call_rows(call: Call, lanes: _Lanes, arrows: _Arrows) -> Iterator[TraceEvent]:
    """The bar of a call, its arrows, and the memory of its outputs."""
    spent = (lanes.ends[call.id] - call.start) / 1000
    yield lanes.row("X", _name(call), call, cat=call.kind, dur=spent, args=_facts(call))
    yield from arrows.rows(call, lanes)
    if call.id not in arrows.inner:
        return
    size = memory(call)
    if size:
        yield lanes.row("C", "output memory", call, args={"bytes": size})


def _name(call: Call) -> str:
    if call.phase != "forward":
        return f"{call_name(call)} {call.phase}"
    return call_name(call)


def _facts(call: Call) -> TraceEvent:
    """The facts that a viewer shows for a selected bar."""
    facts: TraceEvent = {
        "path": safe(call.path),
        "inputs": result(call.inputs or None, MOST_TEXT),
        "output": result(call.result, MOST_TEXT),
        **code_at(call.site),
        "raised": safe(call.raised or ""),
        "flops": call.flops or 0,
        "time": "launch" if call.has_launch_time else "",
    }
    known = {name: fact for name, fact in facts.items() if fact}
    return {"id": call.id, "step": call.step, **known}


def _moment(event: Mark | Variable, lanes: _Lanes) -> Iterator[TraceEvent]:
    """A mark or the change of a variable; the first event of a step has already named the step."""
    if isinstance(event, Variable):
        yield lanes.row("i", safe(event.name), event, cat="variable", s="t", args=_variable_facts(event))
    elif event.kind != "step":
        yield lanes.row("i", safe(event.text), event, cat=event.kind, s="t")


def _variable_facts(variable: Variable) -> TraceEvent:
    """The facts that a viewer shows for a selected change."""
    facts = {"value": short(value_text(variable.value), MOST_TEXT), "changes": ", ".join(variable.changes)}
    if variable.site is not None:
        facts["source"] = place(variable.site)
    return facts
