"""What is said about the file that a guard writes when a run ends badly: in the terminal and on the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.trace.test_crash import CRASH
from tests.view.test_banner import answers

from insitu.trace.crash import Crash
from insitu.trace.event import Call
from insitu.trace.trace import Trace
from insitu.view import render
from insitu.view.crash_text import crash_contents, written_text
from insitu.view.notebook import trace_forms


def trace_of(crash: Crash) -> Trace:
    calls: list[Any] = [
        Call(6, None, "function", "torch.ones", step=36),
        Call(7, None, "function", "torch.log", step=37),
    ]
    return Trace(calls, about={"crash": crash.plain()})


def test_reason_and_stacks_come_before_the_tree() -> None:
    lines = render(trace_of(CRASH)).splitlines()
    assert lines[0] == "✗ Step 37, watchdog: no step for 5 s"
    assert lines[2:7] == ["  a.py:3: odd", "", "  MainThread:", "  sleep", ""]
    assert "torch.log" in "\n".join(lines[7:])


def test_page_opens_at_the_call() -> None:
    (found,) = answers(trace_of(CRASH))
    assert (found["kind"], found["head"]) == ("crash", "Step 37, watchdog")
    assert found["text"].startswith("no step for 5 s · steps 18 … 37")
    assert found["more"] == "a.py:3: odd\n\nMainThread:\nsleep"
    (other,) = answers(trace_of(replace(CRASH, call=6)))
    assert found["row"] == other["row"] + 1 or found["row"] > other["row"] >= 0
    (nowhere,) = answers(trace_of(replace(CRASH, call=None)))
    assert nowhere["row"] == -1


def test_page_without_source_has_neither_findings_nor_stacks() -> None:
    (found,) = answers(trace_of(CRASH), source=False)
    assert found["more"] == ""


def test_what_is_not_there_is_said() -> None:
    whole = Crash("sigterm", "SIGTERM arrived", 37, 18, 20)
    assert crash_contents(whole) == "steps 18 … 37; statistics of tensors that were still there"
    assert crash_contents(replace(whole, first=30)).startswith(
        "steps 30 … 37 of the 20 that were wanted: there was no memory for more;"
    )
    assert crash_contents(replace(whole, first=37, is_cut=True)).startswith(
        "step 37, without the beginning of step 37: there was no room for it;"
    )
    assert crash_contents(replace(whole, kept_from=30)).endswith(
        "; what was kept of tensors before step 30 is gone: there was no memory for it"
    )
    assert crash_contents(replace(whole, step=3, first=0)).startswith("steps 0 … 3; ")


def test_one_step_is_one() -> None:
    assert written_text(1, "a.h5") == "the last step is in a.h5 (insitu show a.h5)"


def test_facts_of_the_page_do_not_repeat_the_crash() -> None:
    assert "stacks" not in str(trace_forms(trace_of(CRASH), None, None))


def test_control_characters_of_a_file_are_not_printed() -> None:
    hostile = replace(CRASH, text="\x1b[31mred", stacks=())
    assert "\x1b" not in render(trace_of(hostile))
