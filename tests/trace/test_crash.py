"""Why the last steps were written, as plain data; a file may hold anything."""

from __future__ import annotations

from typing import Any

import pytest

from insitu.trace.crash import Crash, CrashFinding, ThreadStack, crash_of
from insitu.trace.trace import Trace

CRASH = Crash(
    "watchdog",
    "no step for 5 s",
    37,
    18,
    20,
    is_cut=True,
    with_statistics=(20,),
    call=7,
    kept_from=19,
    findings=(CrashFinding("warning", "a.py:3: odd"),),
    stacks=(ThreadStack("MainThread", "sleep"),),
)


def test_plain_data_is_read_back() -> None:
    assert crash_of(CRASH.plain()) == CRASH == Trace(about={"crash": CRASH.plain()}).crash
    assert CRASH.count == 20


def test_other_traces_have_none() -> None:
    assert Trace().crash is None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "hunger"},
        {"kind": ["watchdog"]},
        {"step": "37"},
        {"first": -1},
        {"wanted": None},
        {"with_statistics": 3},
        {"with_statistics": ["20"]},
        {"call": 1.5},
    ],
)
def test_damaged_data_is_not_a_crash(change: dict[str, Any]) -> None:
    assert crash_of({**CRASH.plain(), **change}) is None


@pytest.mark.parametrize("other", [None, 3, "crash", [], {}])
def test_other_data_is_not_a_crash(other: Any) -> None:
    assert crash_of(other) is None


def test_damaged_texts_are_left_out() -> None:
    found = crash_of({**CRASH.plain(), "findings": [3], "stacks": "x", "text": None})
    assert found is not None and (found.findings, found.stacks) == ((), ())
