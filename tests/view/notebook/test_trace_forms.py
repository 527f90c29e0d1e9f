"""What a notebook shows of traces and diffs."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from tests.notebooks import executed
from tests.view.build import Run, linear, stats, tensor
from tests.view.hostile import STRINGS, hostile_trace
from tests.view.notebook.outline import Outline, static

from insitu.trace.compare.traces import compare_traces
from insitu.trace.event import Call, Event, Mark, ModuleFacts
from insitu.trace.trace import Trace
from insitu.view.notebook import diff_forms, page_frame, trace_forms

LIST_TAGS = {"div", "ul", "li", "details", "summary", "samp", "span", "b"}


def text_before_the_page(forms: dict[str, str]) -> str:
    """The text of a diff that is always visible."""
    before = forms["text/html"].partition("<pre>")[2].partition("</pre>")[0]
    return unescape(re.sub("<[^>]*>", "", before))


def net() -> Run:
    run = Run()
    out = tensor(2, 8, stats=stats(-1.0, 2.0, nan=3))
    with run.inside(run.module("", "Net", tensor(2, 4), leaf=False, out=out)):
        linear(run, "fc", 4, 8, tensor(2, 4))
        run.call("function", "torch.Tensor.relu", tensor(2, 8), out=out)
    return run


def test_the_text_is_the_tree() -> None:
    trace = net().trace
    assert trace_forms(trace)["text/plain"] == str(trace)


@pytest.mark.parametrize("events", [[], [Mark(0, None, "step", "")]])
def test_a_trace_without_calls_says_so_and_has_no_page(events: list[Event]) -> None:
    assert trace_forms(Trace(events)) == {"text/plain": "(no calls)"}
    assert str(Trace(events)) == "(no calls)"


def test_include_and_exclude_choose_the_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    for subject in (net().trace, compare_traces(net().trace, net().trace)):
        assert list(subject._repr_mimebundle_()) == ["text/plain", "text/html"]
        assert list(subject._repr_mimebundle_(include={"text/html"})) == ["text/html"]
        monkeypatch.setattr(page_frame, "_frame", None)  # what nobody wants is not made
        assert list(subject._repr_mimebundle_(include=["text/plain", "image/png"])) == ["text/plain"]
        assert list(subject._repr_mimebundle_(exclude={"text/html"})) == ["text/plain"]
        monkeypatch.undo()


def test_the_list_folds_and_has_the_rows_of_the_tree() -> None:
    outline = Outline(static(trace_forms(net().trace)))
    assert outline.rows == [
        (0, "Net f32[2, 8] ✗ 3 NaN -1 … 2"),
        (1, "fc Linear(4 → 8) f32[2, 8]"),
        (1, ".relu f32[2, 8] ✗ 3 NaN -1 … 2"),
        (0, "first NaN: .relu"),
    ]
    assert outline.tags == LIST_TAGS and outline.attributes == {"class", "style", "open"}


def test_the_page_is_in_a_frame_that_may_run_scripts_and_nothing_else() -> None:
    text = trace_forms(net().trace)["text/html"]
    (frame,) = re.findall(r"<iframe [^>]*>", text)
    assert 'sandbox="allow-scripts"' in frame and "src=" not in frame.replace("srcdoc=", "")
    page = unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])  # type: ignore[index]
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")


def test_a_long_list_keeps_the_upper_levels_and_counts_the_rest() -> None:
    run = Run()
    for number in range(150):
        with run.inside(run.module(f"block{number}", "Block", leaf=False)):
            for shape in range(3):
                run.call("function", "torch.relu", out=tensor(shape, number))
    rows = Outline(static(trace_forms(run.trace))).rows
    notes = [int(match[1]) for _, text in rows if (match := re.fullmatch(r"… (\d+) more", text))]
    assert len(rows) - len(notes) == 200
    assert sum(depth == 0 for depth, _ in rows) == 151 and rows[-1] == (0, "600 calls")
    assert sum(notes) == 601 - 200


def test_a_long_text_is_cut() -> None:
    calls: list[Event] = [Call(number, None, "function", "f", result=tensor(number)) for number in range(2000)]
    lines = trace_forms(Trace(calls))["text/plain"].splitlines()
    assert (len(lines), lines[-1]) == (1001, "… 1,001 more lines: print(…) shows them all")


def test_hostile_names_are_text() -> None:
    bundle = trace_forms(hostile_trace())
    outline = Outline(static(bundle))
    assert outline.tags == LIST_TAGS and outline.attributes == {"class", "style", "open", "title"}
    shown = "".join(text for _, text in outline.rows)
    assert STRINGS[2] in shown and STRINGS[0] in shown
    assert bundle["text/html"].encode() and bundle["text/plain"].encode()


def test_a_large_page_is_written_beside_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page_frame, "MOST_PAGE", 10)
    for _ in range(2):
        text = trace_forms(net().trace)["text/html"]
    (file,) = tmp_path.iterdir()
    assert f'href="{file.name}"' in text and "<iframe" not in text
    assert file.read_text("utf-8").startswith("<!doctype html>") and file.stat().st_mode & 0o077 == 0


def test_an_unwritable_folder_is_reported_in_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(page_frame, "MOST_PAGE", 10)
    assert "cannot be written here" in trace_forms(net().trace)["text/html"]


class Stubborn:
    """A value of the user's that cannot be written down."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_failing_view_is_reported_and_does_not_raise() -> None:
    broken = Trace([Call(0, None, "function", None)])  # type: ignore[arg-type]
    bundle = trace_forms(broken)
    assert set(bundle) == {"text/plain"}
    assert "it cannot be shown: AttributeError" in bundle["text/plain"]


def test_a_page_that_fails_leaves_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = net().trace
    trace.about["subject"] = Stubborn()
    bundle = trace_forms(trace)
    assert bundle["text/plain"] == str(net().trace)
    assert "The page: it cannot be shown: RuntimeError: no" in bundle["text/html"]
    assert Outline(static(bundle)).rows[0][1].startswith("Net")


def test_a_diff_begins_with_the_first_cause() -> None:
    a, b = net().trace, net().trace
    relu = b.calls[-1]
    relu.result = tensor(2, 8, dtype="bf16", stats=stats(-5.0, 2.0))
    diff = compare_traces(a, b)
    assert diff.first is not None
    bundle = diff_forms(diff)
    assert bundle["text/plain"] == str(diff)
    assert text_before_the_page(bundle).startswith("✗ first difference: ")
    outline = Outline(static(bundle))
    assert (0, "the calls side by side") in outline.rows and "<iframe" in bundle["text/html"]


def test_a_diff_of_nothing_is_its_verdict() -> None:
    assert text_before_the_page(diff_forms(compare_traces(Trace(), Trace()))) == (
        "nothing to compare: neither run has a call\n"
    )


def test_module_names_of_box_characters_do_not_change_the_depth() -> None:
    trace = Trace([Call(0, None, "module", "Net", ModuleFacts("│  ├─ ", "Net"))])
    assert Outline(static(trace_forms(trace))).rows == [(0, "│ ├─ Net")]


PROGRAM = """
import torch, insitu
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
with insitu.record(model, keep="stats") as trace:
    model(torch.ones(2, 4))
with insitu.record(model, keep="stats") as other:
    model(torch.zeros(2, 4))
"""


@pytest.mark.slow
def test_a_real_notebook_shows_traces_and_diffs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, trace, diff = executed([PROGRAM, "trace", "insitu.compare(trace, other)"], tmp_path, monkeypatch)
    assert trace["text/plain"].splitlines()[0].startswith("Sequential")
    assert Outline(static(trace)).rows[1][1].startswith("0 Linear(4 → 8) f32[2, 8]")
    assert 'sandbox="allow-scripts"' in trace["text/html"]
    assert diff["text/plain"].startswith("✗ first difference: ")
    assert text_before_the_page(diff).startswith("✗ first difference: ")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".html"] == []
