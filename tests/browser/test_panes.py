"""What else a page shows, in a real browser: comparisons, variables; and what holds for all: access, size, speed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import numpy
import pytest
from tests.browser.conftest import Opened
from tests.browser.runs import HOSTILE, hostile, large, training
from tests.trace.comparing import Program, fused, given
from tests.trace.comparing import compared as compared_programs
from tests.view.build import Run, tensor

from insitu.trace.compare.change import EmptyRun
from insitu.trace.compare.traces import compare_traces
from insitu.trace.diff import Diff
from insitu.trace.event import Call
from insitu.trace.trace import Trace
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]


def compared() -> Diff:
    """Two runs, of which the second makes NaN in the softmax of its second block."""
    return compare_traces(training(1, 4, bad_from=None), training(1, 4, bad_from=0), labels=("before", "after"))


def test_a_diff_shows_both_runs_and_begins_at_the_first_cause(open_page: Open) -> None:
    diff = compared()
    assert diff.first is not None and isinstance(diff.first.a, Call) and diff.first.a.path == "h.1.attn"
    opened = open_page(page(diff))
    assert opened.page.locator("#heads .name").all_inner_texts() == ["where", "before", "after", "difference"]
    assert opened.selected == "✗ h.1.attn"
    assert "first cause" in opened("document.querySelector('#rows [aria-selected=true]').innerText")
    assert "First difference: h.1.attn F.softmax (model.py:23)" in opened("document.getElementById('banner').innerText")
    heads = opened("[...document.querySelectorAll('#details thead th')].map((one) => one.innerText)")
    assert [head.split()[0] for head in heads] == ["before", "after"]
    assert "after: NaN begins here" in opened.details
    assert opened.rows[0].endswith(" same") and "because of what came before" in opened.rows[-1]


def test_in_a_diff_n_goes_to_the_next_difference(open_page: Open) -> None:
    other = training(2, 4, bad_from=1)
    other.find("h.2.attn", name="softmax", step=0)[0].kwargs["dim"] = 0
    diff = compare_traces(training(2, 4, bad_from=None), other)
    opened = open_page(page(diff))
    stops = [row for row in diff.differences if row.status not in ("same", "close", "follows")]
    assert len(stops) > 1
    visited = []
    for _ in stops:
        visited.append(opened("location.hash"))
        opened.press("n")
    assert visited[0] == opened("location.hash") and len(set(visited)) == len(stops)
    opened.press("N")
    assert opened("location.hash") == visited[-1]
    opened.press("Home", "f")
    assert opened("location.hash") == f"#e={diff.first.a.id}"  # type: ignore[union-attr]
    assert opened.search("softmax").endswith(f"/{sum('softmax' in row.a.name for row in diff.differences if row.a)}")


def test_unfolding_a_diff_row_shows_its_calls(open_page: Open) -> None:
    opened = open_page(page(compared()))
    count = len(opened.rows)
    opened.press("Home", "l", "j")
    assert opened.selected.startswith("=") and len(opened.rows) > count


def test_a_diff_of_equal_runs_reports_no_difference(open_page: Open) -> None:
    same = training(1, 2, bad_from=None)
    opened = open_page(page(compare_traces(same, same)))
    verdict = "document.getElementById('verdict').innerText"
    assert opened(verdict) == str(compare_traces(same, same)) != ""
    assert opened("document.getElementById('first').hidden")
    opened = open_page(page(Diff()))
    opened.press(*"jklheunNfpcvgG", "Enter")  # there is no row to go to
    assert opened(verdict) == "nothing to compare: neither run has a call" and opened.details == ""


def test_a_diff_counts_repeats_and_marks_close_values(open_page: Open) -> None:
    runs = []
    for extra in (0.0, 1.0):
        run = Program()
        for number in range(8):
            run.made("relu", given(0.0), value=number + extra / 1e6)
        for _ in range(3):
            run.made("rand", value=extra, site=run.events[0].site)  # type: ignore[union-attr]
        runs.append(run)
    diff = compared_programs(*runs)
    opened = open_page(page(diff))
    assert "× 3" in opened("document.getElementById('banner').innerText")
    assert opened("document.querySelectorAll('#rows .row.cause').length") == 3
    assert opened.rows[0].endswith("≈ 5 equal within the tolerance")
    agreed = diff_that_agrees()
    opened = open_page(page(agreed))
    assert opened("document.getElementById('verdict').innerText") == str(agreed).splitlines()[0]


def diff_that_agrees() -> Diff:
    diff = compared_programs(*fused(4.0))
    assert diff.agrees and not diff.same
    return diff


def test_a_call_only_in_the_second_run_has_its_own_address(open_page: Open) -> None:
    diff = compare_traces(training(1, 2, bad_from=None), training(1, 3, bad_from=None))
    alone = [row.b.id for row in diff.differences if row.a is None and row.b is not None]
    opened = open_page(page(diff), address=f"#b={alone[-1]}")
    row = opened("document.querySelector('#rows [aria-selected=true]').innerText.trim()")
    assert row.startswith("+") and "(not there)" in row and "Δ" not in row
    opened.press("Home", "f")
    assert opened("location.hash") == f"#b={alone[0]}"
    opened.press("Home", "N")
    opened.page.go_back()
    assert opened.selected.startswith("+")


def values(factor: float = 1.0) -> Trace:
    """Calls that kept arrays: planes with NaN, a row, an image."""
    planes = numpy.arange(48.0).reshape(2, 4, 6) * factor - 20
    planes[0, 0, 0] = numpy.nan
    image = numpy.zeros((3, 20, 20), "u1")
    run = Run()
    for number, array in enumerate((planes, planes[0, 1] * 2, image)):
        out = tensor(*array.shape, id=number, kept=array, producer=number)
        run.call("function", f"torch.f{number}", tensor(2, kept=numpy.ones(2)), out=out)
    return run.trace


def values_apart() -> Diff:
    return compare_traces(values(), values(1.5))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_violations(open_page: Open, scheme: str) -> None:
    every = (
        (training(), ("f", "w", "v", "t", "o", "/", "Escape", "?")),
        (compared(), ("n",)),
        (values(), ("j", "Enter")),
        (values_apart(), ("n",)),
    )
    for subject, states in every:
        opened = open_page(page(subject), color_scheme=scheme, bypass_csp=True)
        opened((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
        for button in opened.page.locator("#banner >> text=explain").all():
            button.click()
        opened.page.focus("#query")
        opened.page.keyboard.type("kind:function so")
        opened.press("Escape")
        for key in states:
            opened.press(key)
            found = opened("axe.run().then((result) => result.violations)")
            assert [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in found] == []


def test_hostile_names_in_a_diff(open_page: Open) -> None:
    diff = compare_traces(hostile(), hostile(), labels=(HOSTILE, HOSTILE))
    diff.unpaired.append(EmptyRun(HOSTILE, 1))  # type: ignore[arg-type]
    opened = open_page(page(diff))
    opened.press("j", "e", "v")
    assert opened("window.pwned") is None and len(opened.requests) == 1


def test_a_page_of_100000_events_opens_and_searches_quickly(open_page: Open) -> None:
    ready = "performance.getEntriesByName('ready')[0].startTime"
    empty = min(open_page(page(Trace()))(ready) for _ in range(2))
    trace = large(100_000)
    text = page(trace)
    assert len(trace) >= 100_000 and len(text) <= 3_000_000
    opened = open_page(text)
    assert opened(ready) <= 2 * empty + 2000
    search = """(query) => {
        const box = document.getElementById("query"), start = performance.now();
        box.value = query;
        box.dispatchEvent(new Event("input"));
        return performance.now() - start;
    }"""
    for query in ("softmax", "mod:h.3.* nan:", "dur>50us kind:aten", "shape:2,24 step:3-40 linear", "h.17"):
        assert min(opened(search, query) for _ in range(3)) <= 200
    assert opened.search("softmax kind:function").split("/")[1] == f"{len(trace.find('h.*.attn', name='softmax')):,}"
    opened.press("Escape", "End")
    assert opened.selected == "weights f32[96] (values changed)"
