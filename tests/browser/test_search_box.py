"""The search box in a real browser: filters become chips, unknown ones say so, only hits can be shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.conftest import Opened
from tests.browser.runs import training
from tests.view.build import Run, stats, tensor

from insitu.trace.event import Site
from insitu.trace.trace import Trace
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
CHIPS = "[...document.querySelectorAll('.chip .edit')].map((chip) => chip.innerText)"
QUERY = "document.getElementById('query').value"
HITS = "document.getElementById('hits').textContent"


@pytest.fixture
def opened(open_page: Open) -> Opened:
    return open_page(page(training()), address="#e=0")


def typed(opened: Opened, text: str) -> None:
    """Type into the box as a person does."""
    opened.page.focus("#query")
    opened.page.keyboard.type(text)


def test_a_filter_becomes_a_chip_when_a_blank_ends_it(opened: Opened) -> None:
    typed(opened, "softmax kind:function step:0-1 ")
    assert opened(CHIPS) == ["kind:function", "step:0-1"]
    assert opened(QUERY).strip() == "softmax" and opened(HITS) == "–/6"
    opened.press("Enter")
    assert opened(HITS) == "1/6"


def test_a_quoted_filter_keeps_its_blanks(opened: Opened) -> None:
    typed(opened, 'src:"F.softmax(att" ')
    assert opened(CHIPS) == ['src:"F.softmax(att"'] and opened(HITS) == "–/24"
    typed(opened, 'src:"dim = 7')
    assert opened(QUERY) == 'src:"dim = 7'


def test_chips_can_be_removed_and_edited(opened: Opened) -> None:
    typed(opened, "nan: kind:function step:3 ")
    assert opened(CHIPS) == ["nan:", "kind:function", "step:3"] and opened(HITS) == "–/6"
    opened.page.click(".chip [aria-label='Remove nan:']")
    assert opened(CHIPS) == ["kind:function", "step:3"] and opened(HITS) != "–/6"
    opened.page.click(".chip >> text=step:3")
    assert opened(CHIPS) == ["kind:function"] and opened(QUERY) == "step:3"
    opened.press("Backspace")
    opened.page.keyboard.type("0")
    opened.press("Enter")
    assert opened(CHIPS) == ["kind:function", "step:0"]
    opened.press("Backspace")
    assert opened(CHIPS) == ["kind:function"] and opened(QUERY) == "step:0"
    opened.page.click("#clear")
    assert opened(CHIPS) == [] and opened(QUERY) == "" and opened(HITS) == ""


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("foo:bar", '"foo:" is not a filter: did you mean mod:h.*.attn?'),
        ("fil:model", '"fil:" is not a filter: did you mean file:model.py:66?'),
        ("maxx>5", '"maxx>" is not a filter: did you mean max>5?'),
        ("max:5", '"max:" is not a filter: did you mean max>5?'),
        ("max>high", 'max> expects a number, got "high": max>5'),
        ("size>3pints", 'size> expects a number of elements, or of bytes, got "3pints": size>1MB'),
        ("kind:spaceship", "kind: expects one of module, function"),
    ],
)
def test_a_filter_that_does_not_exist_says_so(opened: Opened, query: str, answer: str) -> None:
    assert opened.search(query).startswith(answer)
    assert opened("document.getElementById('query').getAttribute('aria-invalid')") == "true"
    opened.search("softmax")
    assert opened("document.getElementById('query').getAttribute('aria-invalid')") is None


def test_a_word_with_a_colon_is_found_as_text(open_page: Open) -> None:
    run = Run()
    run.call("function", "torch.zeros", 3, kwargs={"device": "cuda:0"}, out=tensor(3))
    assert open_page(page(run.trace)).search("cuda:0") == "1/1"


def numbers() -> Trace:
    run, places = Run(), [Site("a.py", line, "f", "x") for line in range(4)]
    outputs = [
        tensor(2, 3, stats=stats(-1, 1)),
        tensor(500, stats=stats(-4, 0)),
        tensor(stats=stats(0, 7, inf=3)),
        tensor(2),
    ]
    for number, out in enumerate(outputs):
        run.call("function", f"torch.f{number}", out=out, site=places[number])
    return run.trace


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("max>5", 1),
        ("max>=1", 2),
        ("min<-3", 1),
        ("min<=-1", 2),
        ("abs>3", 2),
        ("size>5", 2),
        ("size>=500", 1),
        ("size>1KB", 1),
        ("size<100b", 3),
        ("inf>2", 1),
        ("std>0", 3),
        ("count>9", 3),
        ("max> min<0", 2),
        ("max>5 min<0", 0),
    ],
)
def test_numbers_of_outputs_are_compared(open_page: Open, query: str, count: int) -> None:
    opened = open_page(page(numbers()))
    assert opened.search(query).split("/")[-1] == (str(count) if count else "no hits")


def test_only_hits_shows_hits_and_the_rows_around_them(opened: Opened) -> None:
    opened.search("masked_fill phase:forward")
    opened.press("Escape", "o")
    copy = ["▾ GPT", "▾ h.0 … h.2 × 3 alike Block", "▾ attn Attention", ".masked_fill(-inf)"]
    assert opened.rows[:5] == ["▾ step 0 … 2 × 3 alike", *copy]
    assert not any("softmax" in row or "wte" in row for row in opened.rows)
    assert opened("document.getElementById('only').getAttribute('aria-pressed')") == "true"
    opened.press("o")
    assert "F.softmax(dim=-1)" in opened.rows


def test_a_jump_to_a_hidden_row_shows_all_rows_again(opened: Opened) -> None:
    typed(opened, "softmax kind:function")
    opened.page.click("#only")
    opened.press("n", "p")
    assert opened.selected == ".masked_fill(-inf)"
    assert opened("document.getElementById('only').getAttribute('aria-pressed')") == "false"


def test_only_hits_follows_the_query_and_the_rows_come_back_as_they_were(opened: Opened) -> None:
    opened.press("Home")
    before = opened.rows
    opened.search("softmax kind:function")
    opened.press("Escape", "o")
    assert opened.rows != before and not any("wte" in row for row in opened.rows)
    opened.search("wte")
    assert opened.rows[:3] == ["▾ step 0 … 2 × 3 alike", "▾ GPT", "▸ wte Embedding"]
    opened.search("nothing-like-this")
    assert opened.rows == [] and opened("document.getElementById('empty').innerText") == "No row matches the search."
    opened.page.click("#clear")
    assert opened.rows == before and not opened("document.getElementById('empty').checkVisibility()")


def test_the_menu_of_filters_completes_what_is_typed(opened: Opened) -> None:
    menu = "[...document.querySelectorAll('#filters button code')].map((one) => one.innerText)"
    assert not opened("document.getElementById('filters').checkVisibility()")
    opened.press("/")
    assert "max>5" in opened(menu) and len(opened(menu)) > 12
    opened.page.keyboard.type("softmax s")
    assert opened(menu) == ["size>1MB", "shape:24,*,96", "step:3-5", 'src:"x @ y"']
    opened.page.click("#filters >> text=step:3-5")
    assert opened(QUERY) == "softmax step:"
    opened.page.keyboard.type("0 ")
    assert opened(CHIPS) == ["step:0"]
    opened.press("Escape")
    assert not opened("document.getElementById('filters').checkVisibility()")
    assert opened("document.activeElement.id") == "grid"


def test_the_documentation_names_filters_that_exist(opened: Opened) -> None:
    text = (Path(__file__).parents[2] / "docs" / "show.md").read_text("utf-8")
    table = text.partition("| filter | finds |\n|---|---|\n")[2].partition("\n\n")[0]
    queries = [query for row in table.splitlines() for query in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(queries) > 15
    said = {query: opened.search(query) for query in queries}
    assert [query for query, hits in said.items() if "expects" in hits or "not a filter" in hits] == []
    statistics = re.findall(r"`(\w+)`", re.findall(r"values of an output;(.*?)and the other statistics", table)[0])
    assert [name for name in statistics if "not a filter" in opened.search(f"{name}>1")] == []
