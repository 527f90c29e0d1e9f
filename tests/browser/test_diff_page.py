"""The page of a comparison in a real browser: sizes call by call, both calls side by side, pictures of differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
from tests.browser.conftest import Opened
from tests.trace.comparing import Program, chain, compared, given
from tests.view.build import Run, tensor

from insitu.trace.compare.traces import compare_traces
from insitu.trace.diff import Diff
from insitu.view.headline import size_cell
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]


def faulty(count: int = 12, place: int = 5) -> Diff:
    """Two chains of calls; from one call on, everything differs."""
    calls = [("relu", float(number), ()) for number in range(count)]
    other = [("relu", number + (0.5 if at >= place else 0.0), ()) for at, (_, number, _) in enumerate(calls)]
    return compared(chain(*calls), chain(*other))  # type: ignore[arg-type]


def with_values() -> Diff:
    """Two runs that kept values; the second call multiplies by another factor in b."""
    runs = []
    for factor in (1.0, 1.25):
        run = Run()
        x = numpy.random.default_rng(0).normal(size=(2, 6, 5)).astype("f4")
        given_x = tensor(2, 6, 5, id=1, kept=x)
        same = tensor(2, 6, 5, id=2, kept=x + 1, producer=0)
        run.call("function", "torch.add", given_x, 1, out=same)
        out = (x + 1) * factor
        out[1, 5, 4] = x[1, 5, 4]
        made = tensor(2, 6, 5, id=3, kept=out, producer=1)
        run.call("function", "torch.mul", same, factor, out=made)
        run.call("function", "torch.exp", made, out=tensor(2, 6, 5, id=4, kept=numpy.exp(out), producer=2))
        runs.append(run.trace)
    return compare_traces(*runs, labels=("before", "after"))


def differences(opened: Opened) -> list[str]:
    script = "[...document.querySelectorAll('#rows .row:not([hidden])')].map((row) => row.children[3].innerText)"
    return [" ".join(text.split()) for text in opened(script)]


def test_rows_have_the_relative_error_that_the_terminal_has(open_page: Open) -> None:
    diff = faulty()
    opened = open_page(page(diff))
    opened.press("Home", "e", "G", "e")
    shown = differences(opened)
    for row in diff.differences:
        text = size_cell(row)
        assert not text or any(text in cell for cell in shown), text
    assert any(cell.startswith("first cause relative ≥ ") for cell in shown)


def test_the_strip_shows_each_pair_and_a_click_goes_there(open_page: Open) -> None:
    diff = faulty()
    opened = open_page(page(diff))
    assert "Relative error of 12 pairs of calls; the largest is ≥ 0.0769" in opened(
        "document.getElementById('strip').getAttribute('aria-label')"
    )
    box = opened("(({x, y, width}) => [x, y, width])(document.getElementById('strip').getBoundingClientRect())")
    step = (box[2] - 40) / 12
    opened.page.mouse.click(box[0] + 40 + step * 9.5, box[1] + 40)
    assert opened("location.hash") == f"#e={diff.differences[9].a.id}"  # type: ignore[union-attr]
    opened.page.mouse.click(box[0] + 40 + step * 0.5, box[1] + 40)
    assert opened("location.hash") == f"#e={diff.differences[0].a.id}"  # type: ignore[union-attr]
    opened.page.mouse.move(box[0] + 40 + step * 5.5, box[1] + 40)
    assert "relative ≥ " in opened("document.getElementById('strip').title")


def test_a_strip_of_many_pairs_shows_the_causes_among_them(open_page: Open) -> None:
    diff = faulty(4000, 2000)
    opened = open_page(page(diff))
    box = opened("(({x, y, width}) => [x, y, width])(document.getElementById('strip').getBoundingClientRect())")
    middle = box[0] + 40 + (box[2] - 40) * (2000.5 / 4000)
    opened.page.mouse.click(middle, box[1] + 40)
    assert diff.first is not None and diff.first.a is not None
    assert opened("location.hash") == f"#e={diff.first.a.id}"


def test_equal_runs_have_no_strip(open_page: Open) -> None:
    same = chain(("relu", 1.0, ()), ("exp", 2.0, ()))
    opened = open_page(page(compared(same, same)))
    assert opened("document.getElementById('changes').hidden")
    assert open_page(page(Diff()))("document.getElementById('changes').hidden")


def beside(opened: Opened) -> dict[str, list[str]]:
    """The rows of the table of both calls: the look, and the texts of both sides."""
    script = """[...document.querySelectorAll('.beside tbody tr:not(.group)')].map((row) =>
        [row.children[0].innerText, row.className, row.children[1].innerText, row.children[2].innerText])"""
    return {name: rest for name, *rest in opened(script)}


def test_both_calls_are_side_by_side_and_what_differs_is_marked(open_page: Open) -> None:
    a = chain(("relu", 1.0, ()), ("softmax", 2.0, (-1,)))
    b = chain(("relu", 1.0, ()), ("softmax", 2.5, (0,)))
    opened = open_page(page(compared(a, b)))
    rows = beside(opened)
    assert rows["≠ argument 2"] == ["differs", "-1", "0"]
    assert rows["type"][0] == "same" and rows["std"] == ["same", "0.5", "0.5"]
    assert rows["≠ mean"] == ["differs", "2", "2.5"]
    assert rows["line"] == ["same", "model.py:2 in forward", "model.py:2 in forward"]
    width = opened("[document.getElementById('details').clientWidth, document.body.clientWidth]")
    assert width[0] == width[1]  # all of the page, below the table
    assert opened("document.querySelector('.beside a').dataset.row") is not None
    opened.page.click(".beside .argument a, .beside .origin a >> nth=0")
    assert opened.selected.startswith("=")


def test_a_call_of_one_run_only_is_beside_nothing(open_page: Open) -> None:
    a, b = chain(("relu", 1.0, ())), chain(("relu", 1.0, ()), ("exp", 5.0, ()))
    opened = open_page(page(compared(a, b)))
    assert "(not there)" in opened("document.querySelector('.beside thead').innerText")
    rows = beside(opened)
    assert rows["type"] == ["", "", "f32[2] · cpu"]


def test_values_of_both_runs_and_their_difference_are_pictures_of_the_same_slice(open_page: Open) -> None:
    diff = with_values()
    opened = open_page(page(diff))
    captions = "[...document.querySelectorAll('.panel figcaption')].map((caption) => caption.innerText)"
    assert opened(captions) == ["before", "after", "before − after"]
    ends = opened("[...document.querySelectorAll('.panel .ends')].map((ends) => ends.innerText.split('\\n'))")
    assert ends[0] == ends[1] != ends[2] and float(ends[2][0]) == -float(ends[2][-1])
    opened.page.focus(".panel canvas")
    opened.press("ArrowDown")
    text = opened("document.querySelector('.readout').textContent")
    assert text.startswith("[0, 0, 0]")
    values = [float(part.split("= ")[1]) for part in text.split("  ·  ")]
    a, b = (diff.differences[1].a, diff.differences[1].b)
    expected = [float(call.result.kept[0, 0, 0]) for call in (a, b)]  # type: ignore[union-attr]
    assert values == pytest.approx([*expected, expected[0] - expected[1]], rel=1e-3)
    marks = "[...document.querySelectorAll('.cell-mark')].map((mark) => mark.hidden)"
    assert opened(marks) == [False] * 3
    assert opened("document.querySelectorAll('#details .histogram .outline').length") == 1


def test_nan_in_one_run_only_is_said(open_page: Open) -> None:
    runs = []
    for last in (1.0, float("nan")):
        run, x = Program(), given(0.0)
        run.call("function", "torch.relu", x, out=tensor(2, kept=numpy.array([0.5, last]), producer=0))
        runs.append(run)
    opened = open_page(page(compared(*runs)))
    assert "NaN or Inf in one run only" in differences(opened)[0]
    assert "NaN or Inf in one run only" in opened.details
