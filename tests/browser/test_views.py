"""All views of a page together: what is selected in one is selected in the others, and keys work in each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.browser.conftest import Opened
from tests.browser.runs import training

from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
NODE = "document.querySelector('#graph .node[aria-selected=true]')?.getAttribute('aria-label') ?? ''"
VIEW = "document.body.dataset.view"
ZOOM = "document.querySelector('#graph .canvas > g').getAttribute('transform')"
FLAME = "document.getElementById('flame').toDataURL()"
SOFTMAX = "F.softmax(dim=-1) NaN begins"


def until_changed(opened: Opened, script: str, before: str) -> None:
    opened.until(f"({script}) !== {before!r}")


def test_the_selected_call_is_the_same_in_tree_graph_flame_and_variables(open_page: Open) -> None:
    opened = open_page(page(training()))
    opened.press("f")
    assert opened.selected == SOFTMAX
    opened.until(f"({NODE}).startsWith('F.softmax')")
    opened.press("m")
    opened.until(f"({NODE}).startsWith('F.softmax')")
    opened.press("ArrowUp")
    opened.until(f"({NODE}).startsWith('.masked_fill')")
    opened.press("t")
    assert opened.selected.startswith(".masked_fill")
    opened.press("w")
    assert opened("document.getElementById('flame-name').innerText").startswith("step 3")
    assert ".masked_fill" in opened.details
    opened.press("v")
    opened.page.click("[data-path=loss] .red a")
    assert opened(VIEW) == "tree" and opened.selected.startswith("loss") and "step 3" in opened.details
    opened.press("f", "m")
    opened.until(f"({NODE}).startsWith('F.softmax')")


def test_a_node_that_is_clicked_is_the_row_of_the_tree_and_of_the_flame(open_page: Open) -> None:
    opened = open_page(page(training()))
    opened.until(f"({NODE}) !== ''")
    opened.press("Home")
    before = opened(FLAME)
    opened.page.click('#graph .node[aria-label^="wte"]')
    assert opened.selected.startswith("▸ wte")
    until_changed(opened, FLAME, before)
    assert "wte" in opened.details


def test_plus_and_minus_zoom_what_is_shown(open_page: Open) -> None:
    opened = open_page(page(training()))
    opened.press("m")
    opened.until(f"({NODE}) !== ''")
    opened.page.focus("#views [data-view=graph]")  # the focus is not on the graph
    opened.until("new Promise((done) => setTimeout(() => done(true), 300))")
    before = opened(ZOOM)
    opened.press("+")
    until_changed(opened, ZOOM, before)
    opened.press("w")
    opened.until("document.getElementById('flame').getBoundingClientRect().height % 20 === 0")
    opened("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    before = opened(FLAME)
    opened.press("+")
    until_changed(opened, FLAME, before)
