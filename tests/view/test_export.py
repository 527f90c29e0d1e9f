"""What is written for other viewers: the choice by suffix, CSV, and the timeline as Perfetto reads it."""

from __future__ import annotations

import csv
import io
import json
import re
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.view.build import Run, stats, tensor
from tests.view.hostile import STRINGS, hostile_trace, long_trace

from insitu.errors import SubjectError
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, TensorFacts, Variable
from insitu.trace.trace import Trace
from insitu.verbs.save import save
from insitu.view.export import EXPORTS, SUFFIXES, export_bytes, export_for, export_text


class Timeline:
    """A trace of events as the importer of Perfetto takes it: stable by time, bars on a stack, arrows to its top."""

    def __init__(self, text: str) -> None:
        self.rows: list[dict[str, Any]] = json.loads(text, parse_constant=_refuse)["traceEvents"]
        self.bars = [row for row in self.rows if row["ph"] == "X"]
        self.arrows: set[tuple[int, int, str]] = set()
        self.parents: dict[int, int | None] = {}
        self._stacks: defaultdict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
        self._open: dict[int, int] = {}
        for row in sorted([row for row in self.rows if row["ph"] != "M"], key=lambda row: row["ts"]):
            self._take(row)

    def _take(self, row: dict[str, Any]) -> None:
        assert all(type(row[key]) is int for key in ("pid", "tid")) and type(row["ts"]) is float
        stack = self._stacks[row["pid"], row["tid"]]
        start = round(row["ts"] * 1000)
        if row["ph"] == "X":
            while stack and stack[-1][0] <= start:
                stack.pop()
            end = start + round(row["dur"] * 1000)
            assert not stack or end <= stack[-1][0], f"{row} overlaps: a reader drops it"
            self.parents[row["args"]["id"]] = stack[-1][1] if stack else None
            stack.append((end, row["args"]["id"]))
        elif row["ph"] in "sf":
            assert type(row["id"]) is int
            if row["ph"] == "s":
                assert row["id"] not in self._open
                self._open[row["id"]] = stack[-1][1]
            else:
                assert row["bp"] == "e"
                self.arrows.add((self._open[row["id"]], stack[-1][1], row["cat"]))
        else:
            assert row["ph"] in "iC" and (row["ph"] != "i" or row["s"] in "pt")

    def named(self, phase: str) -> list[str]:
        return [row["name"] for row in self.rows if row["ph"] == phase]


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def pass_and_backward() -> Trace:
    """y = relu(fc(x)); y.backward(), with times."""
    linear, relu = "torch.nn.functional.linear", "torch.nn.functional.relu"
    place = Site("model.py", 23, "Net.forward", "y = F.relu(self.fc(x))")
    net, fc = ModuleFacts("", "Net", leaf=False), ModuleFacts("fc", "Linear")
    x, weight = tensor(2, 3), TensorFacts(9, (4, 3), "f32", "cpu", type="Parameter")
    hidden, y, grad = (
        TensorFacts(number, (2, 4), "f32", "cpu", producer=maker) for number, maker in ((1, 2), (2, 3), (3, 4))
    )
    events: list[Event] = [
        Call(0, None, "module", "Net", net, (x,), result=y, start=1_000, duration=9_000),
        Call(1, 0, "module", "Linear", fc, (x,), result=hidden, start=2_000, duration=3_000, site=place),
        Call(2, 1, "function", linear, fc, (x, weight), result=hidden, start=2_001, duration=2_999),
        Call(3, 0, "function", relu, net, (hidden,), result=y, start=6_000, duration=1_234),
        Call(
            *(4, None, "aten", "aten.threshold_backward", net, (y,)),
            **{"result": grad, "start": 20_000, "duration": 500, "phase": "backward", "forward": 3},
        ),
    ]
    return Trace(events, about={"subject": "Net"})


def to_csv(trace: Trace) -> str:
    return export_text(trace, ".csv")


def to_perfetto(trace: Trace) -> str:
    return export_text(trace, ".json")


def test_the_suffix_chooses_the_form() -> None:
    names = {"a.json": "perfetto", "a.graph.json": "model_explorer", "A.DOT": "dot", "a.b.mmd": "mermaid"}
    names |= {"run.csv": "csv", "run.csv.gz": "csv", "a.graph.json.gz": "model_explorer"}
    assert {name: export.module for name in names if (export := export_for(name)) is not None} == names
    assert [export_for(name) for name in ("a.h5", "json", "a.dot.gz")] == [None] * 3


def test_no_suffix_is_hidden_by_a_shorter_one() -> None:
    for export in EXPORTS:
        assert all(export_for(f"run{suffix}") is export for suffix in export.suffixes)
    with pytest.raises(ValueError, match=re.escape("'run.xyz' does not end in one of .graph.json")):
        export_bytes(Trace(), "run.xyz")
    assert len(set(SUFFIXES)) == len(SUFFIXES)


@pytest.mark.parametrize("suffix", [export.suffix for export in EXPORTS])
def test_exports_are_deterministic_and_encodable(suffix: str) -> None:
    for make in (Trace, pass_and_backward, hostile_trace):
        text = export_text(make(), suffix)
        assert text == export_text(make(), suffix)
        text.encode()  # would raise for half of a surrogate pair


def test_long_exports_contain_every_call() -> None:
    trace = long_trace(20_000)
    assert to_csv(trace).count("\n") == 1 + len(trace.calls)
    assert len(Timeline(to_perfetto(trace)).bars) == len(trace.calls)


def test_csv_has_the_columns_and_rows_of_the_frame() -> None:
    run = Run()
    run.call("function", "torch.add", tensor(2), out=tensor(2, stats=stats(-1.0, 1.5, nan=2)), operator="+", duration=7)
    run.call("function", "torch.cat", tensor(2), out=tensor(4, kept=0.25))
    frame = run.trace.to_pandas().reset_index()
    rows = list(csv.DictReader(io.StringIO(to_csv(run.trace))))
    assert list(rows[0]) == list(frame.columns)
    assert [
        rows[0][name] for name in ("id", "name", "operator", "duration", "output", "min", "max", "nan", "kept")
    ] == [*("0", "torch.add", "+", "7", "f32[2]", "-1.0", "1.5", "2", "")]
    assert (rows[1]["kept"], rows[1]["operator"], rows[1]["duration"]) == ("0.25", "", "")


def test_the_frame_has_the_statistics_of_every_output() -> None:
    run = Run()
    run.call("function", "torch.max", out=(tensor(2, stats=stats(0.0, 1.0)), tensor(2, stats=stats(3.0, 4.0, nan=1))))
    run.call("function", "torch.relu", out=tensor(2, stats=stats(0.0, 1.0)))
    many, one = run.trace.to_pandas()["others"]
    known = {"min": 3.0, "max": 4.0, "mean": 0.0, "std": 1.0, "nan": 1, "inf": 0, "zeros": 0}
    assert one is None and len(many) == 1 and known.items() <= many[0].items()
    rows = list(csv.DictReader(io.StringIO(to_csv(run.trace))))
    assert "'nan': 1" in rows[0]["others"] and rows[1]["others"] == ""


def test_csv_escapes_formulas_and_reads_back() -> None:
    trace = hostile_trace()
    rows = list(csv.DictReader(io.StringIO(to_csv(trace), newline="")))
    assert len(rows) == len(trace.calls)
    for row, call in zip(rows, trace.calls, strict=True):
        name = call.name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
        assert row["name"] in (name, "'" + name)
        assert not row["name"].startswith(("=", "+1", "-1", "@SUM", "\t"))


def test_the_bars_are_the_calls_in_microseconds() -> None:
    trace = pass_and_backward()
    timeline = Timeline(to_perfetto(trace))
    assert [(bar["name"], bar["ts"], bar["dur"], bar["cat"]) for bar in timeline.bars] == [
        ("Net", 1.0, 9.0, "module"),
        ("fc  Linear", 2.0, 3.0, "module"),
        ("F.linear", 2.001, 2.999, "function"),
        ("F.relu", 6.0, 1.234, "function"),
        ("aten.threshold_backward backward", 20.0, 0.5, "aten"),
    ]
    assert timeline.parents == {0: None, 1: 0, 2: 1, 3: 0, 4: None}
    assert timeline.bars[1]["args"] == {
        **{"id": 1, "step": 0, "path": "fc", "inputs": "f32[2, 3]", "output": "f32[2, 4]"},
        **{"source": "model.py:23", "code": "y = F.relu(self.fc(x))"},
    }


def test_arrows_lead_from_producers_to_consumers_and_from_forward_to_backward() -> None:
    timeline = Timeline(to_perfetto(pass_and_backward()))
    assert timeline.arrows == {(2, 3, "tensor"), (3, 4, "tensor"), (3, 4, "backward")}


def test_memory_is_that_of_the_innermost_calls() -> None:
    timeline = Timeline(to_perfetto(pass_and_backward()))
    counts = [(row["ts"], row["args"]) for row in timeline.rows if row["ph"] == "C"]
    assert counts == [(2.001, {"bytes": 32}), (6.0, {"bytes": 32}), (20.0, {"bytes": 32})]


def test_ranks_are_processes_and_threads_are_lanes() -> None:
    calls: list[Event] = [
        Call(number, None, "function", "f", start=0, duration=5, rank=rank, thread=thread, step=rank)
        for number, (rank, thread) in enumerate([(0, 0), (0, 1), (1, 0)])
    ]
    timeline = Timeline(to_perfetto(Trace(calls)))
    assert [(bar["pid"], bar["tid"]) for bar in timeline.bars] == [(0, 0), (0, 1), (1, 0)]
    assert [(row["name"], row["pid"], row["s"]) for row in timeline.rows if row["ph"] == "i"] == [
        ("step 0", 0, "p"),
        ("step 1", 1, "p"),
    ]
    names = {(row["pid"], row["tid"]): row["args"]["name"] for row in timeline.rows if row["name"] == "thread_name"}
    assert names == {(0, 0): "thread 0", (0, 1): "thread 1", (1, 0): "thread 0"}
    assert [row["args"]["name"] for row in timeline.rows if row["name"] == "process_name"] == [
        "insitu, rank 0",
        "insitu, rank 1",
    ]


def test_calls_that_overlap_are_on_lanes_of_their_own() -> None:
    """A generator that waits: it goes on after the call began in which it was first asked has ended."""
    calls: list[Event] = [
        Call(0, None, "python", "generator", start=0, duration=100),
        Call(1, None, "python", "consumer", start=50, duration=100),
        Call(2, 1, "function", "torch.ones", start=60, duration=10),
        Call(3, None, "function", "torch.ones", start=200, duration=10),
    ]
    timeline = Timeline(to_perfetto(Trace(calls)))  # it would refuse an overlap
    assert [bar["tid"] for bar in timeline.bars] == [0, 1, 0, 0]
    assert "thread 0, overlapping" in [row["args"]["name"] for row in timeline.rows if row["ph"] == "M"]


def test_an_unfinished_call_lasts_until_its_last_inner_event() -> None:
    calls: list[Event] = [
        Call(0, None, "module", "Net", start=0),
        Call(1, 0, "function", "torch.ones", start=60, duration=10),
    ]
    assert [bar["dur"] for bar in Timeline(to_perfetto(Trace(calls))).bars] == [0.07, 0.01]


def test_a_trace_without_times_cannot_be_a_timeline() -> None:
    with pytest.raises(SubjectError, match=r"needs times.*\.h5"):
        to_perfetto(Trace([Call(0, None, "function", "torch.ones")]))
    assert Timeline(to_perfetto(Trace())).rows == []


def test_marks_and_variables_are_instant_events() -> None:
    place = Site("data.py", 7, "f")
    events: list[Event] = [
        Call(0, None, "python", "f", start=0, duration=100),
        Variable(1, 0, "x", tensor(2), ("new",), place, start=10),
        Mark(2, 0, "note", "here", start=20),
        Mark(3, None, "step", "", start=200, step=1),
    ]
    rows = [row for row in Timeline(to_perfetto(Trace(events))).rows if row["ph"] == "i"]
    assert [(row["name"], row["cat"], row["ts"]) for row in rows] == [
        *(("step 0", "step", 0.0), ("x", "variable", 0.01), ("here", "note", 0.02), ("step 1", "step", 0.2))
    ]
    assert rows[1]["args"] == {"value": "f32[2]", "changes": "new", "source": "data.py:7"}


def test_hostile_names_do_not_break_the_timeline() -> None:
    trace = hostile_trace()
    timeline = Timeline(to_perfetto(trace))
    assert len(timeline.bars) == len(trace.calls) and len(trace.calls) > len(STRINGS)
    assert all(row["name"].isprintable() for row in timeline.rows)


@pytest.mark.parametrize("name", ["run.json", "run.json.gz", "run.csv"])
def test_long_exports_are_written_piece_by_piece(name: str, tmp_path: Path) -> None:
    facts = tuple(TensorFacts(number, (10**9, number), "f32", "cpu") for number in range(40))
    trace = Trace([Call(number, None, "function", "torch.cat", args=(facts,), duration=1) for number in range(4000)])
    size = len(to_csv(trace) if "csv" in name else to_perfetto(trace))
    tracemalloc.start()
    try:
        save(trace, tmp_path / name)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size / 2
