"""Where the panes are, in windows of different sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.browser.conftest import Opened
from tests.browser.runs import training

from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
PHONE = {"width": 390, "height": 800}


def heights(opened: Opened, *names: str) -> list[float]:
    """How high some panes are; 0 for those that are not shown."""
    script = "(names) => names.map((name) => document.getElementById(name).getBoundingClientRect().height)"
    found: list[float] = opened(script, list(names))
    return found


def test_a_phone_shows_one_pane_and_the_details_below_it(open_page: Open) -> None:
    opened = open_page(page(training()), viewport=PHONE)
    grid, details, time = heights(opened, "grid", "details", "time")
    assert grid > 200 and details > 150 and time == 0
    assert len(opened.rows) > 8
    opened.page.click("#handle")
    larger, none = heights(opened, "grid", "details")
    assert larger > grid + 100 and none == 0
    assert opened("document.getElementById('handle').getAttribute('aria-expanded')") == "false"
    opened.page.click("#handle")
    opened.page.click("#views [data-view=flame]")
    grid, details, time = heights(opened, "grid", "details", "time")
    assert grid == 0 and details > 150 and time > 200
    opened.page.click("#views [data-view=series]")
    assert heights(opened, "series")[0] > 400 and heights(opened, "details", "handle") == [0, 0]


@pytest.mark.parametrize("width", [1000, 1280, 1600])
def test_the_bar_is_one_row(open_page: Open, width: int) -> None:
    opened = open_page(page(training()), viewport={"width": width, "height": 700})
    opened.search("softmax kind:function")
    opened.press("Enter")
    tops = opened(
        "[...document.querySelectorAll('#bar > *')].filter((one) => one.checkVisibility())"
        ".map((one) => { const box = one.getBoundingClientRect(); return (box.top + box.bottom) / 2; })"
    )
    assert max(tops) - min(tops) < 8
    assert heights(opened, "bar")[0] < 50


def test_the_strip_is_below_the_tree_and_the_flame_has_a_view_of_its_own(open_page: Open) -> None:
    opened = open_page(page(training()))
    (strip,) = heights(opened, "flamebox")
    opened.press("w")
    grid, flamebox = heights(opened, "grid", "flamebox")
    assert grid == 0 and flamebox > 2 * strip
    opened.press("t")
    opened.until(f"document.getElementById('flamebox').getBoundingClientRect().height === {strip}")


def test_what_is_known_about_the_run_is_in_a_dialog(open_page: Open) -> None:
    opened = open_page(page(training()))
    assert "128 events · level aten · torch 2.13.0" in opened("document.getElementById('about').innerText")
    opened.page.click("#about")
    assert "subject\nGPT" in opened("document.getElementById('facts').innerText")
    opened.press("Escape")
    assert not opened("document.getElementById('facts').open")
