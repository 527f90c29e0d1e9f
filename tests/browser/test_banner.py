"""The banner of a page in a real browser: it answers first, leads to the call, and can be dismissed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.browser.conftest import Opened
from tests.browser.runs import HOSTILE, training
from tests.trace.explain.test_explanation_data import explanation
from tests.trace.test_crash import CRASH
from tests.view.build import Run, tensor

from insitu.trace.explain.explanation import Explanation
from insitu.trace.explain.explanation_data import plain_explanation
from insitu.trace.trace import Trace
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
BANNER = "document.getElementById('banner').innerText"


def failed(told: Explanation) -> Trace:
    run = Run()
    with run.inside(run.module("", "Net", leaf=False, raised=told.error)):
        run.call("function", "torch.relu", tensor(2), out=tensor(2))
        run.call("function", "torch.mm", raised=told.error, message=told.message)
    return Trace(run.events, about={"explanation": plain_explanation(told)})


def test_the_page_opens_at_the_call_that_the_banner_names(open_page: Open) -> None:
    trace = training()
    opened = open_page(page(trace))
    assert "First NaN: h.1.attn F.softmax (model.py:23, step 3)" in opened(BANNER)
    assert opened.selected == "F.softmax(dim=-1) NaN begins"
    places = "(one) => document.querySelector(one).getBoundingClientRect().toJSON()"
    row, box = opened(f"['#rows [aria-selected=true]', '#grid'].map({places})")
    assert box["top"] < row["top"] and row["bottom"] < box["bottom"]
    assert opened("history.length") == open_page(page(trace))("history.length") - 1  # no step back of its own


def test_go_there_leads_to_the_call_from_anywhere(open_page: Open) -> None:
    opened = open_page(page(training()), address="#e=0")
    assert opened.selected == "▾ GPT"
    opened.page.click("#banner >> text=go there")
    assert opened.selected == "F.softmax(dim=-1) NaN begins"
    assert opened("document.activeElement.id") == "grid"
    opened.page.go_back()
    opened.until("document.getElementById('details').innerText.includes('#0 · module')")


def test_a_banner_can_be_dismissed(open_page: Open) -> None:
    opened = open_page(page(training()))
    opened.page.click("#banner [aria-label=Dismiss]")
    assert opened("document.getElementById('banner').hidden")
    assert not open_page(page(training(bad_from=None)))("document.getElementById('banner').checkVisibility()")


def test_an_exception_is_explained_with_its_source(open_page: Open) -> None:
    told = explanation(tensor(2, 3))
    opened = open_page(page(failed(told)))
    assert "RuntimeError: shapes do not fit · torch.mm (model.py:4) · 3 and 4 differ" in opened(BANNER)
    more = "document.querySelector('#banner pre')"
    assert opened(f"{more}.textContent") == str(told) and opened(f"{more}.checkVisibility()")
    opened.page.click("#banner >> text=explain")
    assert not opened(f"{more}.checkVisibility()")
    assert opened("document.querySelector('#banner [aria-expanded]').getAttribute('aria-expanded')") == "false"
    assert opened.selected == "torch.mm()"


def test_an_explanation_is_text_whatever_it_contains(open_page: Open) -> None:
    opened = open_page(page(failed(Explanation(HOSTILE, f"{HOSTILE}\n{HOSTILE}"))))
    assert "</script>" in opened(BANNER)
    assert opened("window.pwned") is None and len(opened.requests) == 1


def test_a_page_without_calls_says_so(open_page: Open) -> None:
    opened = open_page(page(Trace(about={"subject": "GPT", "level": "functions"})))
    text = "document.getElementById('main').innerText"
    assert opened(text) == "This trace has no calls: nothing that it records (subject GPT, level functions) was called."
    opened = open_page(page(training(1), steps=[9]))
    assert "No call was chosen" in opened(text)
    assert not opened("document.getElementById('search').checkVisibility()")


def crashed(call: int | None) -> Trace:
    trace = training(bad_from=None)
    trace.about["crash"] = replace(CRASH, call=call, findings=()).plain()
    return trace


def test_a_page_of_last_steps_says_why_it_was_written_and_opens_at_the_call(open_page: Open) -> None:
    call = training(bad_from=None).find(name="softmax")[-1]
    opened = open_page(page(crashed(call.id)))
    assert "Step 37, watchdog: no step for 5 s · steps 18 … 37" in opened(BANNER)
    assert opened.selected.startswith("F.softmax")
    assert not opened("document.querySelector('#banner pre').checkVisibility()")


def test_stacks_are_open_if_no_call_is_to_blame(open_page: Open) -> None:
    opened = open_page(page(crashed(None)))
    more = "document.querySelector('#banner pre')"
    assert opened(f"{more}.textContent") == "MainThread:\nsleep" and opened(f"{more}.checkVisibility()")
