"""Recorded runs and their variables in a notebook."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.store import recorded
from tests.view.hostile import STRINGS
from tests.view.notebook.outline import Outline

import insitu
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run import series_summary
from insitu.store.run.run import Run

TAGS = {"div", "style", "span", "b", "table", "thead", "tbody", "tr", "th", "td", "img"}


def written(path: Path, values: dict[str, list[Any]]) -> Run:
    """A run with these values of each variable, one for each step."""
    with JournalWriter(path) as journal:
        for step in range(max(map(len, values.values()))):
            rows = [recorded.as_entry(name, 0, items[step]) for name, items in values.items() if step < len(items)]
            journal.step(step, 0.0, rows)
    return Run.open(path)


def body(forms: dict[str, str]) -> str:
    return unescape(re.sub("<[^>]*>", "", forms["text/html"].partition("</style>")[2]))


def cells(forms: dict[str, str], path: str) -> list[str]:
    """The texts of the row of a variable."""
    rows = re.findall(r"<tr>(.*?)</tr>", forms["text/html"])
    texts = [[unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<td.*?>(.*?)</td>", row)] for row in rows]
    return next(row for row in texts if row and row[0] == path)


LOSSES = [np.array(value, np.float32) for value in (4.0, 2.0, np.nan, 1.0)]


def test_a_run_is_a_table_with_a_curve_for_each_variable(tmp_path: Path) -> None:
    with written(tmp_path / "run.h5.parts", {"loss": LOSSES, "phase": ["warm", "warm", "go", "go"]}) as run:
        forms = run._repr_mimebundle_()
    assert forms["text/plain"].splitlines()[0] == "Run 'run.h5.parts': 2 variables, steps 0–3"
    outline = Outline(forms["text/html"])
    assert outline.tags == TAGS
    assert [image["alt"] for image in outline.images] == ["█▃·▁"]
    assert cells(forms, "loss") == ["loss", "4 × f32[]", "0–3", "✗ 1 NaN", "2.33", "1", ""]
    assert "ranks" not in body(forms)


def test_the_last_value_is_that_of_the_last_step(tmp_path: Path) -> None:
    values = [np.array(float(step), np.float32) for step in range(1000)]
    with written(
        tmp_path / "run.h5.parts", {"loss": values, "bad": [*values[:-1], np.array(np.inf, np.float32)]}
    ) as run:
        forms = run._repr_mimebundle_()
        assert [summary.last for summary in run.summary().variables] == [999.0, None]
    assert cells(forms, "loss")[5] == "999" and cells(forms, "bad")[5] == "✗ not finite"


def test_what_is_missing_in_a_run_comes_first(tmp_path: Path) -> None:
    recorded.record(tmp_path / "run.h5.parts", world_size=3)
    with insitu.load(tmp_path / "run.h5.parts") as run:
        forms = run._repr_mimebundle_()
        assert f"! {run.missing[0]}" in body(forms) and 'class="i-red"' in forms["text/html"]
        for path in run.paths:
            shown = run[path]._repr_mimebundle_()
            assert "cannot be shown" not in shown["text/plain"] and Outline(shown["text/html"]).tags <= TAGS


def test_a_closed_run_says_that_it_is_closed(tmp_path: Path) -> None:
    run = written(tmp_path / "run.h5.parts", {"loss": LOSSES})
    run.close()
    assert run._repr_mimebundle_() == {"text/plain": "<Run 'run.h5.parts': closed>"}


def test_many_variables_are_counted(tmp_path: Path) -> None:
    with written(tmp_path / "run.h5.parts", {f"v{number}": LOSSES for number in range(230)}) as run:
        forms = run._repr_mimebundle_()
    assert len(Outline(forms["text/html"]).images) == 200 and "… 30 more variables" in body(forms)


def test_a_series_is_a_chart_with_its_range_and_its_last_value(tmp_path: Path) -> None:
    with written(tmp_path / "run.h5.parts", {"loss": LOSSES}) as run:
        forms = run["loss"]._repr_mimebundle_()
    assert forms["text/plain"].splitlines() == [
        "Series 'loss': 4 × float32[], steps 0–3",
        "  range 1 … 4  last 1",
        "  ✗ NaN or Inf in 1 step, the first is 2",
        "  █▃·▁",
    ]
    (image,) = Outline(forms["text/html"]).images
    assert image["alt"] == "1 … 4 over the steps 0 to 3"
    assert "✗ NaN or Inf in 1 step, the first is 2" in body(forms)


def test_a_series_of_texts_shows_the_steps_of_each(tmp_path: Path) -> None:
    with written(tmp_path / "run.h5.parts", {"phase": ["warm", "warm", "go"]}) as run:
        forms = run["phase"]._repr_mimebundle_()
    assert forms["text/plain"].splitlines()[1:] == ["  steps 0 … 1  'warm'", "  step 2  'go'"]
    assert "steps 0 … 1'warm'step 2'go'" in body(forms)


def test_an_empty_series_and_one_without_finite_numbers_have_no_chart(tmp_path: Path) -> None:
    with written(tmp_path / "run.h5.parts", {"loss": LOSSES}) as run:
        for series in (run["loss"][100:200], run["loss"][2:3]):
            forms = series._repr_mimebundle_()
            assert "cannot be shown" not in forms["text/plain"] and Outline(forms["text/html"]).images == []


def test_a_series_that_is_too_large_is_sampled_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_summary, "MOST_BYTES", 4 * 100 * 50)
    values = [np.full(100, step, np.float32) for step in range(200)]
    odd = [*values[:100], *[np.full(100, np.nan, np.float32)] * 99, values[199]]
    with written(tmp_path / "run.h5.parts", {"h": values, "odd": odd}) as run:
        forms = run["h"]._repr_mimebundle_()
        text = run["odd"]._repr_mimebundle_()["text/plain"]
    assert "some of the steps are left out" in forms["text/plain"] and "range 0 … 199  last 199" in forms["text/plain"]
    assert "the first of those shown is 1" in text


def test_hostile_names_and_texts_are_texts(tmp_path: Path) -> None:
    values = {text: ["".join(STRINGS[:6])] * 2 for text in STRINGS if text.isprintable()}
    with written(tmp_path / "run.h5.parts", values) as run:
        for shown in (run, *(run[path] for path in run.paths)):
            forms = shown._repr_mimebundle_()
            assert "cannot be shown" not in forms["text/plain"] and Outline(forms["text/html"]).tags <= TAGS


def test_a_damaged_run_is_reported_and_does_not_raise(tmp_path: Path) -> None:
    with written(tmp_path / "run.h5.parts", {"loss": LOSSES}) as run:
        for path in (tmp_path / "run.h5.parts").rglob("*"):
            if path.is_file():
                path.write_bytes(bytes(path.stat().st_size))
        for shown in (run, run["loss"]):
            forms = shown._repr_mimebundle_()
            assert set(forms) == {"text/plain"} and "it cannot be shown: StoreError" in forms["text/plain"]


def test_a_run_that_is_being_recorded_shows_itself(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    with insitu.record_run(model, only="forward", keep="values", to=tmp_path / "run.h5") as live:
        model(torch.ones(1, 2))
        model(torch.ones(1, 2))
        live.flush()
        assert "forward" in live._repr_mimebundle_()["text/plain"]
    with insitu.record_run(model, only="forward", keep="values", to=lambda *_: None) as live:
        assert live._repr_mimebundle_() == {"text/plain": repr(live)}
