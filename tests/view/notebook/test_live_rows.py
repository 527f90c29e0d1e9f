"""The rows of a running program: alike calls are one, and what is kept has a limit."""

from __future__ import annotations

import pytest
from tests.view.notebook.outline import Outline

from insitu.trace.event import Call
from insitu.view.line import Column, Line
from insitu.view.notebook import live_rows
from insitu.view.notebook.live_rows import TextRows, TreeRows
from insitu.view.variables import Variables

COLUMNS = (Column("output"), Column("values"), Column("time"))


def row(name: str, depth: int = 0, *, output: str = "f32[2]", values: str = "", ink: str = "") -> Line:
    guide = (("└─ ", "grey"),) if depth else ()
    return Line((*guide, (name, "")), ((output, "blue"), (values, ink), ("1ms", "green")), COLUMNS, depth)


def shown(rows: TreeRows) -> list[str]:
    rows.settle()
    return [str(line) for line in rows.lines()]


def added(*calls: str, steps: bool = False) -> TreeRows:
    rows = TreeRows()
    for step, name in enumerate(calls):
        rows.add([row(name), row(f"in {name}", 1)], step if steps else 0)
    return rows


def test_calls_that_differ_only_in_values_are_one_row_with_the_values_of_the_last() -> None:
    rows = TreeRows()
    for number in range(1000):
        rows.add([row("Net", values=f"{number}"), row("fc", 1, values=f"{number}")], step=number)
    assert shown(rows) == [
        "step 0 … 999  × 1,000 alike, the last:  Net  f32[2]  999  1ms",
        "└─ fc  f32[2]  999  1ms",
    ]


@pytest.mark.parametrize(
    "other",
    [row("Net", output="f32[3]"), row("Other"), row("Net", values="✗ 3 NaN", ink="red")],
    ids=["another shape", "another name", "not a number"],
)
def test_calls_that_differ_otherwise_are_rows_of_their_own(other: Line) -> None:
    rows = TreeRows()
    rows.add([row("Net")])
    rows.add([other])
    rows.add([row("Net")])
    assert len(shown(rows)) == 3


def test_passes_of_a_loop_are_one() -> None:
    assert shown(added("x", *["net", "loss", "step"] * 50)) == [
        "x  f32[2]  1ms",
        "└─ in x  f32[2]  1ms",
        "× 50 alike, the last:",
        *[f"  {text}  f32[2]  1ms" for name in ("net", "loss", "step") for text in (name, f"└─ in {name}")],
    ]


def test_loops_inside_of_loops_are_one() -> None:
    texts = shown(added(*["a", "a", "a", "b"] * 20))
    assert texts[0] == "× 20 alike, the last:"
    assert texts[1] == "  × 3 alike, the last:  a  f32[2]  1ms"
    assert len(texts) == 1 + 2 + 2


def test_a_loop_that_changes_its_pace_loses_no_call() -> None:
    texts = shown(added("a", "a", "b", "a", "b", "c", "c", "a"))
    counted = [text for text in texts if not text.lstrip().startswith("└─")]
    assert counted == [
        "× 2 alike, the last:  a  f32[2]  1ms",
        "b  f32[2]  1ms",
        "a  f32[2]  1ms",
        "b  f32[2]  1ms",
        "× 2 alike, the last:  c  f32[2]  1ms",
        "a  f32[2]  1ms",
    ]


def test_lines_that_come_one_by_one_belong_to_the_call_that_is_open() -> None:
    rows = TreeRows()
    for line in (row("f"), row("x", 1), row("y", 1), row("f"), row("z", 1)):
        rows.add([line])
    assert len(rows.lines()) == 5  # the second call goes on
    assert [(depth, text[0]) for depth, text in Outline(rows.html()).rows] == [
        *((0, "f"), (1, "x"), (1, "y")),
        *((0, "f"), (1, "z")),
    ]


def test_the_oldest_calls_are_counted_beyond_the_limit() -> None:
    rows = TreeRows()
    for number in range(1000):
        rows.add([row(f"call {number}"), *[row(f"inside {inside}", 1) for inside in range(40)]])
    texts = shown(rows)
    kept = live_rows.MOST_CALLS
    assert texts[0] == f"… {1000 - kept} earlier calls are not shown"
    assert len(texts) == 1 + 41 * kept and texts[-41].startswith("call 999")
    assert len(Outline(rows.html()).rows) <= 2 * live_rows.MOST_ROWS


def test_large_calls_are_counted_sooner() -> None:
    rows = TreeRows()
    for number in range(10):
        rows.add([row(f"call {number}"), *[row(f"inside {inside}", 1) for inside in range(2000)]])
    texts = shown(rows)
    assert texts[0] == "… 8 earlier calls are not shown" and len(texts) == 1 + 2 * 2001
    assert texts[1].startswith("call 8")


def test_calls_that_are_not_shown_are_counted_one_by_one() -> None:
    rows = added(*["a"] * 100, *[f"{number}" for number in range(live_rows.MOST_CALLS)])
    assert shown(rows)[0] == "… 100 earlier calls are not shown"


def test_calls_of_a_watched_function_that_differ_only_in_their_time_are_one_row() -> None:
    rows, view = TreeRows(), Variables()
    for number in range(100):
        call = Call(number, None, "python", "add", kwargs={"x": 3}, result=4, duration=1000 * number)
        rows.add(view.opened(call))
        rows.add(view(call))
    assert shown(rows) == ["┌── × 100 alike, the last:  add", "├─ in   x  3", "└─ out  4   99.0µs"]
    rows.add(view.opened(Call(100, None, "python", "add", kwargs={"x": 5})))
    assert len(shown(rows)) == 5


def test_what_is_left_out_is_above_the_calls_and_not_around_them() -> None:
    rows, view = TreeRows(), Variables()
    for number in range(live_rows.MOST_CALLS + 5):
        call = Call(number, None, "python", "add", kwargs={"x": number}, result=4)
        rows.add(view.opened(call))
        rows.add(view(call))
    rows.settle()
    assert Outline(rows.html()).rows[:2] == [(0, "… 5 earlier calls are not shown"), (0, "add")]


def test_of_other_views_the_last_lines_are_kept() -> None:
    rows = TextRows()
    rows.add([row(f"{number}") for number in range(1000)])
    assert str(rows.lines()[0]) == "… 700 earlier lines are not shown" and len(rows.lines()) == 301
    assert rows.html().startswith("<pre>")
