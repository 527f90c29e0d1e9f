"""The table of calls in a real browser: columns that can be resized and sorted, texts that are cut, variables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.browser.conftest import Opened
from tests.browser.runs import training
from tests.view.build import Run, stats, tensor

from insitu.trace.event import Call, Site
from insitu.trace.trace import Trace
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
HEADS = "[...document.querySelectorAll('#heads [role=columnheader]:not([hidden]) .name')].map((head) => head.innerText)"


def head(opened: Opened, kind: str) -> dict[str, float]:
    """Where the heading of a column is."""
    script = f"document.querySelector('#heads .{kind}').getBoundingClientRect().toJSON()"
    found: dict[str, float] = opened(script)
    return found


def sorted_by(opened: Opened, kind: str) -> list[str]:
    """The rows after a click on the heading of a column."""
    opened.page.click(f"#heads .{kind} .head")
    return opened.rows


def sizes() -> Trace:
    """A model in which the largest output, and the largest value, are deep inside."""
    run = Run()
    with run.inside(run.module("", "Net", leaf=False, out=tensor(4), duration=9_000_000)):
        small, large = tensor(4, stats=stats(-1, 1)), tensor(400, stats=stats(-1, 50))
        with run.inside(run.module("a", "A", leaf=False, out=small, duration=6_000_000)):
            run.module("a.x", "X", out=small, duration=5_000_000)
        with run.inside(run.module("b", "B", leaf=False, out=small, duration=2_000_000)):
            run.module("b.y", "Y", out=small, duration=500_000)
            run.module("b.z", "Z", out=large, duration=1_500_000)
        run.module("c", "C", out=tensor(40, stats=stats(-9, 0)), duration=1_000_000)
    return run.trace


def test_a_click_on_a_heading_sorts_siblings_and_the_largest_inside_counts(open_page: Open) -> None:
    opened = open_page(page(sizes()))
    before = opened.rows
    assert before == ["▾ Net", "▾ a A", "x X", "▾ b B", "y Y", "z Z", "c C"]
    by_size = sorted_by(opened, "c-output")
    assert by_size == ["▾ Net", "▾ b B", "z Z", "y Y", "c C", "▾ a A", "x X"]
    assert "1.6 KiB" in opened("document.querySelector('#rows .row:nth-child(3)').innerText")
    assert opened("document.querySelector('#heads .c-output').getAttribute('aria-sort')") == "descending"
    assert sorted_by(opened, "c-output") == ["▾ Net", "▾ a A", "x X", "c C", "▾ b B", "y Y", "z Z"]
    assert sorted_by(opened, "c-output") == before
    assert opened("document.querySelectorAll('[aria-sort]').length") == 0
    assert sorted_by(opened, "c-min-max")[1:3] == ["▾ b B", "z Z"]
    assert sorted_by(opened, "c-time")[1:] == ["▾ a A", "x X", "▾ b B", "z Z", "y Y", "c C"]
    assert sorted_by(opened, "c-call") == before


def test_keys_move_in_the_order_that_is_shown(open_page: Open) -> None:
    opened = open_page(page(sizes()))
    sorted_by(opened, "c-output")
    opened("document.getElementById('grid').focus()")
    opened.press("Home", "j", "l")
    assert opened.selected == "z Z"
    opened.press("h", "h", "j")
    assert opened.selected == "c C"


def test_folded_rows_sort_by_all_that_they_represent(open_page: Open) -> None:
    run, line = Run(), [Site("train.py", number, "main", "x") for number in range(3)]
    for number in range(3):
        run.module(f"h.{number}", "Block", out=tensor(2, stats=stats(0, 100 * number)), duration=10_000, site=line[0])
    run.call("function", "torch.relu", out=tensor(2, stats=stats(0, 90)), duration=20_000, site=line[1])
    opened = open_page(page(run.trace))
    folded, relu = "h.0 … h.2 × 3 alike Block", "torch.relu()"
    assert opened.rows == [folded, relu]
    assert sorted_by(opened, "c-min-max") == [folded, relu]
    assert sorted_by(opened, "c-min-max") == [relu, folded]
    assert sorted_by(opened, "c-time") == [folded, relu]
    opened.page.click("#rows .badge")
    assert opened.rows == [relu, "h.0 fold 3 Block", "h.1 Block", "h.2 Block"]


def test_mask_of_minus_infinity_is_not_the_largest_value(open_page: Open) -> None:
    run = Run()
    mask = run.call("function", "torch.Tensor.masked_fill", out=tensor(4, stats=stats(-1, 1, inf=2)))
    run.call("function", "torch.softmax", mask.outputs[0], out=tensor(4, stats=stats(0, 1)))
    run.call("function", "torch.exp", out=tensor(4, stats=stats(0, 30)))
    opened = open_page(page(run.trace))
    assert sorted_by(opened, "c-min-max")[0] == "torch.exp()"


def test_details_of_an_unfolded_row_are_those_of_one_call(open_page: Open) -> None:
    run, line = Run(), Site("train.py", 3, "main", "x")
    for number in range(3):
        run.module(f"h.{number}", "Block", out=tensor(2, stats=stats(0, number)), duration=10_000, site=line)
    opened = open_page(page(run.trace))
    opened("document.getElementById('grid').focus()")
    opened.press("Home")
    assert "One row for 3 calls" in opened.page.inner_text("#details")
    opened.press("u")
    assert "One row for" not in opened.page.inner_text("#details")


def test_a_column_is_resized_by_its_edge_and_by_keys_and_fits_its_content(open_page: Open) -> None:
    opened = open_page(page(training()), viewport={"width": 1400, "height": 700})
    start = head(opened, "c-output")
    edge = start["right"] - 1
    opened.page.mouse.move(edge, start["top"] + 8)
    opened.page.mouse.down()
    opened.page.mouse.move(edge - 40, start["top"] + 8, steps=4)
    opened.page.mouse.up()
    narrow = head(opened, "c-output")["width"]
    assert start["width"] - 45 < narrow < start["width"] - 35
    opened.page.focus("#heads .c-output .head")
    opened.press("Shift+ArrowRight", "Shift+ArrowRight")
    assert head(opened, "c-output")["width"] == narrow + 32
    opened.page.mouse.dblclick(head(opened, "c-output")["right"] - 1, start["top"] + 8)
    outputs = "document.querySelectorAll('#rows .row:not([hidden]) .c-output')"
    cut = f"[...{outputs}].some((cell) => cell.scrollWidth > cell.clientWidth)"
    assert not opened(cut)
    opened.page.reload()
    opened.until("document.body.dataset.ready")
    assert abs(head(opened, "c-output")["width"] - narrow) > 1 and not opened(cut)


@pytest.mark.parametrize("width", [1600, 1280, 1000, 768, 390])
def test_nothing_overflows_its_pane(open_page: Open, width: int) -> None:
    opened = open_page(page(training()), viewport={"width": width, "height": 700})
    grid = "document.getElementById('grid')"
    assert opened(f"{grid}.scrollWidth <= {grid}.clientWidth")
    right = "(one) => one.getBoundingClientRect().right"
    cells = "document.querySelectorAll('#rows .row:not([hidden]) .cell:not([hidden])')"
    assert opened(f"Math.max(...[...{cells}].map({right})) <= {grid}.getBoundingClientRect().right + 1")
    assert opened("document.documentElement.scrollWidth <= innerWidth")
    heads = opened(HEADS)
    assert heads[0] == "call" and ("source" in heads) == (width >= 1000)


def test_columns_without_content_are_hidden_and_say_how_to_record_it(open_page: Open) -> None:
    run = Run()
    run.call("function", "torch.relu", out=tensor(2), duration=5)
    opened = open_page(page(run.trace))
    assert opened(HEADS) == ["call", "output", "time"]
    assert opened("document.querySelector('#heads .hint').innerText") == 'values: record with keep="stats"'
    assert open_page(page(training()))("document.querySelector('#heads .hint')") is None


def test_a_text_that_is_cut_has_a_tooltip_with_all_of_it(open_page: Open) -> None:
    place = Site("/home/me/a_file_with_a_very_long_name_that_does_not_fit.py", 7, "f", "x")
    out = tuple(tensor(2, stats=stats(-1.2345, 6.789)) for _ in range(3))
    opened = open_page(page(Trace([Call(0, None, "function", "torch.chunk", result=out, site=place, duration=9)])))
    opened.page.hover("#rows .c-min-max")
    assert opened("document.querySelector('#rows .c-min-max').title") == " | ".join(["-1.23 … 6.79"] * 3)
    opened.page.hover("#rows .c-source")
    assert opened("document.querySelector('#rows .c-source').title").endswith("does_not_fit.py:7")
    opened.page.hover("#rows .c-call")
    assert opened("document.querySelector('#rows .c-call').title") == "torch.chunk"


def test_variables_read_as_name_value_and_change(open_page: Open) -> None:
    run = Run()
    run.variable("lr", 5.0, "new", line=1)
    run.variable("lr", 10.0, "values", line=2)
    run.variable("x", tensor(2), "new", line=3)
    run.variable("x", tensor(2), "values", line=4)
    run.variable("x", tensor(3), "shape", line=5)
    run.variable("x", None, "deleted", line=6)
    opened = open_page(page(run.trace))
    assert opened.rows == [
        "lr 5.0 (new)",
        "lr 5.0 → 10.0",
        "x f32[2] (new)",
        "x f32[2] (values changed)",
        "x f32[2] → f32[3]",
        "x (deleted)",
    ]


def test_calls_that_ran_in_another_way_are_marked_and_found(open_page: Open) -> None:
    run = Run()
    run.call("function", "torch.relu", out=tensor(2))
    run.call("function", "torch.relu", out=tensor(2), phase="recompute")
    run.call("function", "torch.sin", out=tensor(2), mode="vmap")
    run.module("", "Net", out=tensor(2), mode="compiled")
    opened = open_page(page(run.trace))
    assert opened.rows == ["torch.relu()", "torch.relu() recompute", "torch.sin() vmap", "Net compiled"]
    assert opened.search("phase:recompute") == "–/1" and opened.search("vmap") == "–/1"


def test_details_follow_when_everything_is_folded(open_page: Open) -> None:
    opened = open_page(page(training()), address="#e=3")
    assert "#3 ·" in opened.details
    opened.page.click("#fold")
    assert opened.rows[0].startswith("▸ step 0") and opened.selected.startswith("▸ step 0")
    assert opened.details.startswith("step 0")
