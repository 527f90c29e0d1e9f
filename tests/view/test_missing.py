"""A trace of which something is missing says so, however it is looked at."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import insitu
from insitu.trace.event import Call, TensorFacts
from insitu.trace.missing import Missing
from insitu.trace.trace import Trace
from insitu.view import render
from insitu.view.html import page
from insitu.view.missing_text import missing_text
from insitu.view.notebook import trace_forms

SAID = "1,234 events of steps 0 … 6 are not in this trace: there was no memory for them"


def part() -> Trace:
    """The end of a trace; what its call was given was made by a call that is missing."""
    made = TensorFacts(5, (2,), "f32", "cpu", producer=400)
    call = Call(500, None, "function", "torch.relu", args=(made,), result=made, duration=3, step=7)
    return Trace([call], about={"subject": "Net", "missing": Missing(1234, (0, 6)).plain()})


VIEWS: dict[str, Callable[[Trace], str]] = {
    **{view: lambda trace, view=view: render(trace, view) for view in ("tree", "code", "table")},
    "costs": lambda trace: render(trace, costs=True),
    "str": str,
    "notebook": lambda trace: trace_forms(trace)["text/plain"],
    "repr": lambda trace: repr(trace).replace("1234 more are missing", SAID),
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_reports_missing_events(name: str) -> None:
    assert SAID in VIEWS[name](part())
    assert "missing" not in VIEWS[name](Trace(part().events, about={"subject": "Net"}))


@pytest.mark.parametrize("name", ["run.json", "run.dot", "run.h5", "run.trace", "run.json.gz"])
def test_every_export_reports_missing_events(name: str, tmp_path: Path) -> None:
    insitu.save(part(), tmp_path / name)
    if name.endswith((".h5", ".trace")):
        assert insitu.load(tmp_path / name).missing == part().missing
        return
    content = (tmp_path / name).read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    assert SAID in text
    if ".json" in name:
        assert json.loads(text)["otherData"]["missing"] == SAID


def test_the_page_reports_missing_events() -> None:
    assert len(page(part())) > len(page(Trace(part().events, about={"subject": "Net"})))


def test_the_sentence_counts_events_on_disk_and_incomplete_calls() -> None:
    assert missing_text(Missing(9, (3, 3), (), 9)).startswith("9 events of step 3 are not")
    assert missing_text(Missing(9, (3, 3), (), 9)).endswith(", and its .h5 file holds them")
    assert missing_text(Missing(9, (0, 3), (1, 2), 4)).endswith(
        ", and its .h5 file holds 4 of them; 2 calls lack some of what ran inside, which counts as own time"
    )


def test_a_producer_that_is_missing_is_not_in_the_trace() -> None:
    trace = part()
    assert trace.producer(trace.calls[0].inputs[0]) is None


def test_a_comparison_reports_missing_events() -> None:
    with pytest.warns(insitu.InsituWarning, match="a lacks 1,234 events"):
        insitu.compare(part(), Trace(part().events))


@pytest.mark.parametrize("wrong", [1, {}, {"events": "9"}, {"events": 1, "steps": [1], "calls": [], "on_disk": 0}])
def test_a_file_with_invalid_missing_facts_is_read(wrong: object) -> None:
    assert Trace([], about={"missing": wrong}).missing is None
