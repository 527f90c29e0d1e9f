from __future__ import annotations

import io
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import insitu
from insitu.store.journal.journal_writer import JournalWriter
from insitu.trace.run import Attempt, RunEvent, RunSummary, VariableSummary
from insitu.view import Terminal
from insitu.view.run_table import matching_variables, points_in, run_facts, run_lines, sparkline

BASE = VariableSummary(
    path="encoder.0.forward.h",
    dtype="bfloat16",
    shapes=((2, 8), (2, 64)),
    rows=12000,
    steps=(0, 2999),
    ranks=(0, 1, 2, 3),
    low=-1.25,
    high=3.0,
    nan=0,
    inf=0,
    means=(0.0, 1.0, None, 7.0),
    sampled=False,
    source="model.py:3",
    mean=0.5,
    last=2.5,
    norms=(7.0, 1.0),
    norm=40.0,
)
NOTHING: dict[str, Any] = {"mean": None, "last": None, "norm": None, "norms": (), "means": (), "source": None}


def summary(*values: Any, **changes: Any) -> VariableSummary:
    """A variable with these values for its first fields, and these changes."""
    names = [field.name for field in fields(VariableSummary)]
    return replace(BASE, **dict(zip(names, values, strict=False)), **changes)


def run_of(*variables: VariableSummary, **facts: Any) -> RunSummary:
    return RunSummary(variables, **{name: tuple(items) for name, items in facts.items()})


def cells(facts: VariableSummary) -> list[str]:
    _, line = run_lines(run_of(facts))
    return ["".join(text for text, _ in line.spans), *(text for text, _ in line.cells)]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            summary(),
            [
                *("encoder.0.forward.h", "12,000 × bf16[2, 8–64]", "0–2999", "0–3", "-1.25 … 3", "0.5", "2.5", "40"),
                *("▁▂·█", "model.py:3"),
            ],
        ),
        (
            summary("", "float32", ((), ()), 1, (4, 4), (1, 3), 2.0, 2.0, sampled=True, **NOTHING | {"means": (2.0,)}),
            ["(root)", "1 × f32[]", "4", "1, 3", "≈ 2", "", "", "", "▄", ""],
        ),
        (
            summary("a\nb", "json", (), 3, (0, 2), (1,), None, None, **NOTHING | {"last": "train\n" + "x" * 40}),
            ["a\\nb", "3 × Python value", "0–2", "1", "", "", "train\\nxxxxxxxx…", "", "", ""],
        ),
        (
            summary("x", "int64", ((3,), (2, 2)), 3, (0, 2), (0,), nan=4, inf=1, **NOTHING),
            ["x", "3 × i64[…]", "0–2", "", "✗ 4 NaN, 1 Inf", "", "", "", "", ""],
        ),
        (
            summary("x", "float32", ((3,), (3,)), 3, (0, 2), (0,), nan=4, sampled=True, **NOTHING | {"means": (None,)}),
            ["x", "3 × f32[3]", "0–2", "", "✗ ≥ 4 NaN", "", "✗ not finite", "", "", ""],
        ),
        (
            summary("w.grad", "statistics", (), 3, ranks=(0,), elements=(4096, 4096), role="gradient", source=None),
            ["w.grad", "3 × 4,096 elements", "0–2999", "", "-1.25 … 3", "0.5", "2.5", "40", "█▁", ""],
        ),
        (
            summary("done", "bool", (), 3, (0, 2), (0,), 0.0, 1.0, **NOTHING | {"mean": 0.5, "last": 1.0}),
            ["done", "3 × bool", "0–2", "", "False, True", "", "True", "", "", ""],
        ),
        (
            summary("done", "bool", (), 3, (0, 1), (0,), 0.0, 1.0, **NOTHING | {"mean": 0.3, "last": 0.5}),
            ["done", "3 × bool", "0–1", "", "False, True", "", "False, True", "", "", ""],
        ),
    ],
)
def test_a_variable_is_a_line(facts: VariableSummary, expected: list[str]) -> None:
    assert cells(facts) == expected


def test_missing_parts_and_errors_come_first() -> None:
    events = [RunEvent(kind, "ValueError", 3, 1, 0.0) for kind in ("mark", "raised", "end")]
    lines = [str(line) for line in run_lines(run_of(summary(), missing=["rank 3 left no journal"], events=events))]
    assert lines[:2] == ["! rank 3 left no journal", "! rank 1, step 3: raised: ValueError"]
    assert lines[2].startswith("path  values") and lines[3].startswith("encoder.0.forward.h") and len(lines) == 4


def test_attempts_and_other_runs_are_named_before_the_variables() -> None:
    attempts = [Attempt(0, (0, 1), 2, (0, 50), 0.0, None), Attempt(1, (0, 1), 2, (40, 99), 1.0, 2.0)]
    lines = [str(line) for line in run_lines(run_of(summary(), attempts=attempts, others=["run 0123abcd"]))]
    assert lines[:2] == ["attempt 0: steps 0–50 on 2 ranks, did not end", "attempt 1: steps 40–99 on 2 ranks"]
    assert lines[3] == "run 0123abcd is in the same folder, and not shown"
    assert not str(next(run_lines(run_of(summary(), attempts=attempts[:1])))).startswith("attempt")


def test_an_empty_run_says_that_nothing_was_recorded() -> None:
    assert [str(line) for line in run_lines(run_of())] == ["nothing was recorded"]


def test_an_empty_column_is_left_out() -> None:
    head, _ = run_lines(run_of(summary(source=None)))
    assert str(head) == "path  values  steps  ranks  range  mean  last  norm  over steps"


def test_the_first_nan_of_a_run_is_named_before_the_variables() -> None:
    summaries = [summary("a", first_odd=7), summary("b"), summary("c", first_odd=3), summary("d", first_odd=3)]
    assert str(next(run_lines(run_of(*summaries)))) == "✗ first NaN or Inf: step 3 in c and 1 other"


def test_nan_in_a_sample_of_the_steps_is_not_called_the_first() -> None:
    summaries = [summary("a", first_odd=7), summary("b", sampled=True)]
    text = "✗ NaN or Inf: step 7 in a; it may have begun earlier, in steps that were not read to show this"
    assert str(next(run_lines(run_of(*summaries)))) == text


NAMES, STATISTICS = ["a.losses", "b.x"], ["b.x.mean", "b.x.max"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["a.losses", "b.x"]),
        (["**"], ["a.losses", "b.x"]),
        (["b.x"], ["b.x"]),
        (["b.x.m*"], ["b.x.mean", "b.x.max"]),
        (["b.x.mean", "b.*"], ["b.x"]),
    ],
)
def test_patterns_choose_variables_or_statistics_of_them(patterns: list[str], expected: list[str]) -> None:
    assert matching_variables(NAMES, NAMES + STATISTICS, patterns) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a.loses", "'a.loses' was not recorded (did you mean 'a.losses'?)"),
        ("b", "'b' was not recorded (b.* is what is in it)"),
        ("zzzzzzz", "'zzzzzzz' was not recorded; there is 'a.losses', 'b.x', 'b.x.mean', 'b.x.max'"),
    ],
)
def test_a_pattern_without_match_names_the_nearest_path(pattern: str, message: str) -> None:
    with pytest.raises(insitu.PatternError) as error:
        matching_variables(NAMES, NAMES + STATISTICS, [pattern])
    assert str(error.value) == message


def test_the_facts_are_plain_data() -> None:
    facts = run_facts(
        run_of(summary(), missing=["rank 3 left no journal"], events=[RunEvent("error", "no", None, 0, 0.0)])
    )
    assert facts["missing"] == ["rank 3 left no journal"] and facts["troubles"] == ["rank 0: error: no"]
    assert facts["variables"] == [asdict(summary())]


def test_sparkline_takes_any_numbers() -> None:
    assert sparkline([]) == "" and sparkline([None]) == "" and sparkline([-1.7e308, 1.7e308]) == "▁█"


@pytest.mark.parametrize("width", [30, 60, 200])
def test_a_recorded_run_is_shown(tmp_path: Path, width: int) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in range(9):
            value: Any = np.full(3, step, np.float32)
            journal.step(step, 0.0, [("forward.x", 0, "float32", (3,), value.view(np.uint8)), ("n", 0, None, (), step)])
    file = io.StringIO()
    with insitu.load(tmp_path / "run.h5") as run:
        Terminal(file, color=False, width=width).write(run_lines(run.summary(points_in(width))))
    text = file.getvalue()
    assert "forward" in text and "0 … 8" in text
    if width == 200:
        assert "9 × f32[3]" in text and "▁▂▃▄▅▅▆▇█" in text and text.count("▁") == 2


def shown(tmp_path: Path, **series: list[Any]) -> dict[str, list[str]]:
    """The cells `range` and `over steps` of recorded Python values."""
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in range(len(next(iter(series.values())))):
            journal.step(step, 0.0, [(name, 0, None, (), values[step]) for name, values in series.items()])
    with insitu.load(tmp_path / "run.h5") as run:
        lines = [line for line in run_lines(run.summary(points_in(200))) if line.cells][1:]
    return {str(line.spans[0][0]): [line.cells[3][0], line.cells[7][0]] for line in lines}


def test_integers_of_a_run_are_exact(tmp_path: Path) -> None:
    found = shown(tmp_path, count=[4096, 4096], ids=[8031, 2**53 + 1], size=[4096.0, 65504.0], loss=[0.12345, 1234.5])
    assert {name: cells[0] for name, cells in found.items()} == {
        "count": "4096",
        "ids": "8031 … 9007199254740993",
        "size": "4096 … 65504",
        "loss": "0.123 … 1234",
    }


def test_a_series_that_ends_in_nan_shows_no_bar_at_its_end(tmp_path: Path) -> None:
    steps = 400  # many more than there are bars
    found = shown(tmp_path, loss=[*[1.0] * (steps - 1), float("nan")], none=[*[0.5] * (steps - 1), None])
    assert found["loss"][0] == "✗ 1 NaN" and found["loss"][1].endswith("▄·")
    assert found["none"] == ["0.5", "▄" * 32]
