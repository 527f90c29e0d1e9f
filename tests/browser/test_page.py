"""The page of a trace in a real browser: what it shows, and what its keys, filters and links do."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.browser.conftest import Opened
from tests.browser.runs import HOSTILE, hostile, training
from tests.view.build import Run, stats, tensor

from insitu.trace.event import Call, Event, ModuleFacts, Site, Stats, TensorFacts
from insitu.trace.trace import Trace
from insitu.view import html, replay
from insitu.view.html import page
from insitu.view.number import spread
from insitu.view.tree import Tree

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return training()


@pytest.fixture
def opened(open_page: Open, trace: Trace) -> Opened:
    """The page at its first row; without an address it opens at the first NaN."""
    opened = open_page(page(trace), address="#e=0")
    opened.press("Home")
    return opened


def softmax(trace: Trace, path: str, step: int) -> Call:
    return trace.find(path, name="softmax", kind="function", step=step)[0]


def test_the_page_opens_with_one_request_and_folds_identical_rows(opened: Opened) -> None:
    assert len(opened.requests) == 1 and opened.requests[0].startswith("file://")
    assert opened.rows[0] == "▾ step 0 … 2 × 3 alike"
    assert "▾ h.0 … h.2 × 3 alike Block" in opened.rows
    assert opened.rows[-1] == "▸ step 3 NaN begins inside"
    assert opened("document.title") == "GPT · trace · insitu"
    assert "128 events" in opened("document.getElementById('about').textContent")
    assert "F.softmax(dim=-1)" in opened.rows and "▸ wte Embedding" in opened.rows


def test_rows_of_a_large_tree_are_recycled(open_page: Open) -> None:
    opened = open_page(page(training(1, 60, bad_from=None)))
    opened.press("e")
    assert opened("document.getElementById('grid').getAttribute('aria-rowcount')") == "16"
    opened.press("e")
    assert opened("document.getElementById('grid').getAttribute('aria-rowcount')") == "488"
    assert opened("document.querySelectorAll('#rows .row').length") < 60
    opened.press("End")
    assert opened.selected == "weights f32[96] (values changed)"
    assert opened.rows[-1] == "weights f32[96] (values changed)"


QUERIES = {
    "softmax": "–/16",  # 12 forward, 4 backward
    "softmax mod:h.1.attn": "–/4",
    "mod:h.*.attn kind:module": "–/12",
    "mod:?.?.attn kind:module": "–/12",
    "mod:**.attn kind:mod step:0-1": "–/6",
    "nan: kind:function": "–/6",
    "inf:": "–/12",
    "shape:6,24": "–/24",
    "shape:2,*,24,24 kind:function": "–/12",
    "dtype:bf16": "no hits",
    "phase:backward": "–/4",
    "kind:variable": "–/8",
    "file:model.py:23": "–/24",
    'src:"att.masked_fill"': "–/24",
    "step:3 kind:module mod:wte": "–/1",
    "rank:1": "no hits",
    "raised:": "no hits",
    "dur>1h": 'dur> expects a time, got "1h": dur>1ms',
    "dur>1.2.3": 'dur> expects a time, got "1.2.3": dur>1ms',
    "rank:": 'rank: expects a number, got "": rank:6 or rank:3-5',
    "step:x": 'step: expects a number, got "x": step:6 or step:3-5',
    "": "",
}


def test_search(opened: Opened) -> None:
    assert {query: opened.search(query) for query in QUERIES} == QUERIES


def test_paths_match_as_in_python(opened: Opened) -> None:
    cases = json.loads((Path(__file__).parents[1] / "trace" / "path_cases.json").read_text())
    search = Path(html.__file__).with_name("page") / "web" / "filters.js"
    answer = "return cases.map(([pattern, path]) => [pattern, path, matchesPath(pattern, path)]);"
    answers = opened(f"(cases) => {{ {search.read_text()}\n{answer} }}", cases)
    assert answers == cases


def test_the_backward_pass_is_found_by_its_name(open_page: Open) -> None:
    calls: list[Event] = [Call(0, None, "aten", "aten.mul"), Call(1, None, "aten", "aten.mul", phase="backward")]
    assert open_page(page(Trace(calls))).search("mul backward") == "–/1"


def test_search_by_time(opened: Opened, trace: Trace) -> None:
    longer = [call for call in trace.calls if (call.duration or 0) > 1_000_000]
    assert 0 < len(longer) < 10
    # and the rows of the steps themselves, which are as long
    assert opened.search("dur>1ms kind:module") == f"–/{len([call for call in longer if call.kind == 'module'])}"
    assert opened.search("dur>1000us kind:module") == f"–/{len([call for call in longer if call.kind == 'module'])}"
    assert opened.search("dur<0.001ms") == "no hits"


def test_hits_are_visited_and_counted(opened: Opened) -> None:
    opened.search("softmax kind:function")
    opened.press("Enter")
    assert opened("document.getElementById('hits').textContent") == "1/12"
    assert opened.selected == "F.softmax(dim=-1)"
    opened.press("Escape", "n")
    assert opened("document.getElementById('hits').textContent") == "2/12"
    assert opened("document.querySelector('#details .crumbs').innerText") == "step 0 ▸ GPT ▸ h.1 ▸ h.1.attn"
    opened.press("N", "N")
    assert opened("document.getElementById('hits').textContent") == "12/12"
    assert "NaN" in opened("document.querySelector('#rows [aria-selected=true]').innerText")


def test_closed_rows_count_the_hits_inside(opened: Opened) -> None:
    opened.search("softmax step:3 kind:function")
    assert opened.rows[-1] == "▸ step 3 NaN begins inside 3 hits"


def test_keys_move_open_and_close(opened: Opened) -> None:
    assert opened.selected.startswith("▾ step 0")
    opened.press("j")
    assert opened.selected == "▾ GPT"
    opened.press("h")
    assert opened.selected == "▸ GPT"
    assert opened("document.querySelector('#rows [aria-selected=true]').getAttribute('aria-expanded')") == "false"
    opened.press("ArrowRight", "l")
    assert opened.selected == "▸ wte Embedding"
    opened.press("ArrowDown")
    assert opened.selected == "▾ h.0 … h.2 × 3 alike Block"
    opened.press("u")
    assert opened.selected == "▾ h.0 fold 3 Block" and "▸ h.2 Block" in opened.rows
    opened.press("u", "k", "h")
    assert opened.selected == "▾ GPT"
    opened.press("G", "e")
    assert "▾ h.1 Block" in opened.rows and "aten.layer_norm" in opened.rows
    opened.press("Home")
    assert opened.selected.startswith("▾ step 0")
    assert opened("document.activeElement.id") == "grid"
    assert opened("document.getElementById('grid').getAttribute('aria-activedescendant')") == "row-0"


def test_everything_is_folded_and_unfolded_by_the_button(opened: Opened) -> None:
    opened.page.click("#fold")
    assert opened.rows == ["▸ step 0 … 2 × 3 alike", "▸ step 3 NaN begins inside"]
    opened.page.click("#fold")
    assert "▸ GPT" in opened.rows and "▸ GPT NaN begins inside" in opened.rows


def test_a_click_opens_and_unfolds(opened: Opened) -> None:
    opened.page.click("#rows >> text=step 3")
    assert opened.selected.startswith("▸ step 3")
    opened.page.click("#rows [aria-selected=true] .twisty")
    assert opened.selected.startswith("▾ step 3")
    opened.page.click("#rows .badge >> nth=0")
    assert "▸ step 1" in opened.rows


def test_f_selects_the_call_where_nan_begins(opened: Opened, trace: Trace) -> None:
    opened.press("f")
    origin = softmax(trace, "h.1.attn", 3)
    assert opened.selected == "F.softmax(dim=-1) NaN begins"
    assert opened("location.hash") == f"#e={origin.id}"
    assert "NaN begins here: no NaN in the inputs, output 48/6,912 NaN." in opened.details
    assert "✗ 48 NaN" in opened("document.querySelector('#rows [aria-selected=true]').innerText")


def test_a_deep_link_leads_to_its_call(open_page: Open, trace: Trace) -> None:
    wanted = softmax(trace, "h.2.attn", 1)
    opened = open_page(page(trace), address=f"#e={wanted.id}")
    assert opened.selected == "F.softmax(dim=-1)"
    assert f"#{wanted.id} · function · step 1" in opened.details
    opened("location.hash = '#e=0'")
    opened.until("document.getElementById('details').innerText.includes('#0 · module')")
    opened.page.go_back()
    opened.until(f"document.getElementById('details').innerText.includes('#{wanted.id} · function')")


def test_details_show_source_arguments_statistics_and_module(open_page: Open, trace: Trace) -> None:
    wanted = softmax(trace, "h.0.attn", 0)
    opened = open_page(page(trace), address=f"#e={wanted.id}")
    assert opened("document.querySelector('#details mark').textContent") == wanted.site.text[6:]  # type: ignore[union-attr]
    assert "model.py:23 in Block.forward" in opened.details
    assert "called from train.py:3" in opened.details
    assert "dim\n-1" in opened.details and "f32[2, 6, 24, 24]" in opened.details
    stats = wanted.outputs[0].stats
    assert stats is not None and stats.min is not None
    assert float(opened("document.querySelector('#details .stats dd').textContent")) == pytest.approx(
        stats.min, rel=1e-3
    )
    assert opened("document.querySelector('#details .histogram .bars').getAttribute('d').split('M').length") > 8
    assert "h.0.attn" in opened.details and "Attention" in opened.details


def test_lineage_marks_rows_and_leads_from_one_to_the_next(open_page: Open, trace: Trace) -> None:
    wanted = softmax(trace, "h.0.attn", 0)
    opened = open_page(page(trace), address=f"#e={wanted.id}")
    assert ".masked_fill(-inf) made by" in opened.rows and "+ used by" in opened.rows
    assert opened("document.querySelector('#rows .maker').innerText").strip().startswith(".masked_fill")
    opened.press("p")
    assert opened.selected == ".masked_fill(-inf)"
    opened.press("c")
    assert opened.selected == "F.softmax(dim=-1)"
    opened.page.click("#details .links.green a")
    assert opened.selected == "+"
    assert opened("document.activeElement.id") == "grid"


def test_backward_calls_and_their_forward_call_link_to_each_other(opened: Opened) -> None:
    opened.search("phase:backward step:0")
    opened.press("Enter")
    assert opened.selected == "aten._softmax_backward_data backward"
    opened.page.click("#details section:has(h3:text('Forward call')) a")
    assert opened.selected == "F.softmax(dim=-1)"
    opened.page.click("#details section:has(h3:text('Backward calls')) a")
    assert opened.selected == "aten._softmax_backward_data backward"


def test_a_call_that_raised_is_shown_with_its_exception(open_page: Open) -> None:
    x = TensorFacts(1, (2, 3), "f32", "cpu")
    bad = Call(0, None, "function", "torch.mm", None, (x, x), raised="RuntimeError", message="2 and 3 differ")
    opened = open_page(page(Trace([bad])))
    assert opened("document.querySelector('#rows .c-output').innerText") == "✗ raised RuntimeError"
    assert "✗ raised RuntimeError: 2 and 3 differ" in opened.details
    assert opened.search("raised:runtime") == "1/1"


def test_dark_by_preference_and_by_key(open_page: Open, trace: Trace) -> None:
    opened = open_page(page(trace), color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert opened(background) == "rgb(20, 22, 26)"
    opened.press("d")
    assert opened(background) == "rgb(255, 255, 255)"
    opened.page.click("#theme")
    assert opened(background) == "rgb(20, 22, 26)"


def test_overview_and_flame_lead_to_calls(opened: Opened) -> None:
    box = opened(
        "(({x, y, width, height}) => [x, y, width, height])(document.getElementById('minimap').getBoundingClientRect())"
    )
    opened.page.mouse.click(box[0] + box[2] - 2, box[1] + 20)
    assert opened.selected == "weights f32[96] (values changed)"
    ink = (
        "(() => { const map = document.getElementById('minimap'), pen = map.getContext('2d');"
        " return [...pen.getImageData(map.width - 60, 31, 1, 1).data] })()"
    )
    red, green, blue, _ = opened(ink)
    assert red > 150 > 80 > green and blue < 80
    opened.page.mouse.click(
        *opened("(({x, y}) => [x + 300, y + 6])(document.getElementById('flame').getBoundingClientRect())")
    )
    assert opened.selected == "▸ GPT NaN begins inside"
    assert "step 3" in opened.details


def test_help_opens_and_closes(opened: Opened) -> None:
    opened.press("?")
    assert "next and previous hit" in opened("document.getElementById('help').innerText")
    opened.press("j", "Escape")
    assert opened.selected.startswith("▾ step 0")
    assert not opened("document.getElementById('help').open")


def test_printing_shows_a_folded_summary(opened: Opened) -> None:
    opened.page.emulate_media(media="print")
    seen = "[...document.body.children].filter((one) => one.checkVisibility()).map((one) => one.id)"
    assert opened(seen) == ["summary"]
    text = opened("document.getElementById('summary').innerText")
    assert "h.0 … h.2" in text and "× 3 alike" in text and "f32[2, 24, 96]" in text
    assert len(opened.page.pdf()) > 5_000


def test_hostile_texts_are_shown_as_text(open_page: Open) -> None:
    opened = open_page(page(hostile(), title=HOSTILE))
    opened.press("j", "j", "e")
    for number in range(9):
        opened(f"location.hash = '#e={number}'")
        opened.until(f"document.getElementById('details').innerText.includes('#{number} ·')")
    opened.press("v", "t")
    for query in ("</script>", "mod:*<*", "raised:<", 'src:"<img"', "shape:<", "(", "[", "file:\\", "mod:**.***"):
        opened.search(query)
    opened.page.emulate_media(media="print")
    assert opened("window.pwned") is None
    assert opened("document.images.length + document.querySelectorAll('body script').length") == 1
    assert "</script>" in opened("document.title")
    assert len(opened.requests) == 1


def test_a_damaged_page_shows_an_error(open_page: Open, trace: Trace) -> None:
    text = page(trace).replace('type="application/octet-stream">H4sI', 'type="application/octet-stream">AAAA')
    opened = open_page(text, ready=False)
    opened.until("document.getElementById('trouble').hidden === false")
    assert "This page cannot be shown" in opened("document.getElementById('trouble').innerText")
    assert opened.errors
    opened.errors.clear()


def test_the_page_works_in_the_frame_of_a_notebook(open_page: Open, trace: Trace) -> None:
    import html

    frame = f'<iframe sandbox="allow-scripts" width=900 height=500 srcdoc="{html.escape(page(trace))}"></iframe>'
    opened = open_page(f"<!doctype html><title>notebook</title>{frame}", ready=False)
    inner = opened.page.frames[1]
    for _ in range(500):
        if inner.evaluate("document.body.dataset.ready"):
            break
        opened.page.wait_for_timeout(10)
    inner.click("#first")
    assert "NaN begins here" in inner.evaluate("document.getElementById('details').innerText")


def test_an_unknown_address_is_reported(open_page: Open, trace: Trace) -> None:
    told = "document.getElementById('trouble').innerText"
    opened = open_page(page(trace), address="#e=999999")
    assert opened(told) == "nothing in this page has the address #e=999999"
    opened.press("j")
    assert opened("document.getElementById('trouble').hidden")
    opened("void (location.hash = '#e=888888')")
    opened.until(told)
    opened("void (location.hash = '#e=0')")
    opened.until("document.getElementById('trouble').hidden")
    assert open_page(page(Trace()))("document.getElementById('trouble').hidden")


def test_the_fold_button_is_labelled_with_its_action(opened: Opened) -> None:
    said = "document.getElementById('fold').innerText"
    opened.page.click("#fold")
    assert opened(said) == "unfold"
    opened.press("Home", "l")
    assert opened(said) == "fold"


def test_many_calls_beside_each_other_open_at_once(open_page: Open) -> None:
    events: list[Event] = []
    for number in range(40_000):
        module = ModuleFacts(f"m{number}", f"Type{number}", leaf=False)
        events += [
            Call(2 * number, None, "module", module.type, module, duration=100 + number * 7919 % 40_000),
            Call(2 * number + 1, 2 * number, "function", f"torch.f{number}", duration=50),
        ]
    opened = open_page(page(Trace(events)))
    assert opened.rows[0] == "▸ m0 Type0"
    assert opened("performance.getEntriesByName('ready')[0].startTime") < 15_000


def test_numbers_are_rounded_as_in_the_terminal(open_page: Open) -> None:
    numbers = [-2.125, 0.0010005, 0.125, 1.125, 1.375, 2.5, 9.9921875, 10.25, 12.3456, 33.0, 98.7654, 101.5, 102.5]
    numbers += [999.75, 1000.0, 4096.0, 4100.5, 8034.75, 65504.0, 99999.75, 131072.0, 1.25e9, 3e38]
    calls: list[Call] = []
    for low, high in pairwise(numbers):
        out = TensorFacts(len(calls), (2,), "f64", "cpu", stats=Stats(count=2, min=low, max=high, mean=0.0, std=1.0))
        calls.append(Call(len(calls), None, "function", f"torch.f{len(calls)}", result=out))
    opened = open_page(page(Trace(calls)))
    cells = "[...document.querySelectorAll('#rows .row:not([hidden])')].map((row) => row.children[3].innerText)"
    assert opened(cells) == [spread(stats) for call in calls if (stats := call.outputs[0].stats)]


def cells(opened: Opened, place: int) -> list[str]:
    """The texts of one column of the rows that are elements now."""
    script = f"[...document.querySelectorAll('#rows .row:not([hidden])')].map((row) => row.children[{place}].innerText)"
    return [" ".join(text.split()) for text in opened(script)]


def test_each_output_has_a_range_and_integers_are_exact(open_page: Open) -> None:
    run = Run()
    run.module("", "GPT", out=(tensor(4, 27, stats=stats(-0.381, 0.679)), tensor(stats=stats(3.28, 3.28))))
    ids = tensor(3, dtype="i64", stats=stats(8031, 16_777_217))
    run.call("function", "torch.max", out=(tensor(3, stats=stats(0.99991, 1.0001)), ids))
    parts = [tensor(2, stats=stats(number, number + 1, nan=3 * (number == 8))) for number in range(12)]
    run.call("function", "torch.chunk", out=tuple(parts))
    run.call("function", "torch.f", out=tensor(2, dtype="i64", stats=stats(-(2.0**63), 1234567.0)))
    opened = open_page(page(run.trace))
    assert cells(opened, 3) == [
        "-0.381 … 0.679 | 3.28",
        "0.99991 … 1.0001 | 8031 … 16777217",
        "0 … 1 | 1 … 2 | 2 … 3 | … 9 more, ✗ 3 NaN",
        "≈ -9.22e+18 … 1234567",
    ]
    rows = [line.cells for line in replay(run.events, Tree(live=False)) if line.cells]
    assert cells(opened, 3) == [", ".join(filter(None, (values, mark))) for _, (mark, _), _, (values, _), *_ in rows]
    opened.press("Home", "j")
    assert "16777217" in opened.details and "1.678e+07" not in opened.details


def loops() -> Trace:
    """Three passes of a loop; in each two blocks and two numbers."""
    run, places = Run(), [Site("train.py", line, "main", "x") for line in range(6)]
    for step in range(3):
        x = tensor(2, stats=stats(-step, step))
        run.call("function", "torch.rand", 2, out=x, site=places[0], duration=1_000_000)
        for number in range(2):
            out = tensor(2, stats=stats(-10 * step - number, 1, inf=step))
            with run.inside(run.module(f"h.{number}", "Block", x, leaf=False, out=out, site=places[1])):
                run.call("function", "torch.relu", x, out=out, site=places[2], duration=2_000_000)
        run.call("function", "torch.Tensor.item", x, out=1000 + step, site=places[3])
        loss = float("nan") if step == 1 else 0.5 + step
        run.call("function", "torch.Tensor.mean", x, out=loss, site=places[4])
    return run.trace


def test_a_folded_row_shows_the_range_of_all_copies_at_every_depth(open_page: Open) -> None:
    trace = loops()
    opened = open_page(page(trace), address="#e=0")
    opened.press("Home")
    assert opened.rows[0] == "▾ pass of a loop × 3 alike"
    assert "One row for 3 passes that are alike." in opened.details and "#-1" not in opened.details
    shown = dict(zip(opened.rows, zip(cells(opened, 1), cells(opened, 3), cells(opened, 4), strict=True), strict=True))
    assert shown["torch.rand(2)"] == ("f32[2]", "-2 … 2", "Σ 3.0ms")
    assert shown["▾ h.0 … h.1 × 2 alike Block"][1] == "-21 … 1, 6 Inf"
    assert shown["torch.relu Inf begins"] == ("f32[2]", "-21 … 1, 6 Inf", "Σ 12.0ms")
    assert shown[".item"][0] == "1000 … 1002"
    assert shown[".mean"][0] == "0.5 … 2.5, 1 NaN"
    opened.press("j")
    assert "One row for 3 calls that are alike. Range of all: -2 … 2. Sum of all times: 3.0ms." in opened.details
    opened.press("Home", "u")
    assert cells(opened, 3)[:2] == ["", "0"] and cells(opened, 4)[1] == "1.0ms"


def test_nan_in_a_later_copy_is_shown_on_the_folded_row(open_page: Open) -> None:
    run, place = Run(), Site("train.py", 1, "main", "x")
    for number in range(3):
        out = tensor(2, id=number, stats=stats(0, 1, inf=int(number == 2)))
        with run.inside(run.module(f"h.{number}", "Block", leaf=False, out=out)):
            run.call("function", "torch.exp", tensor(2, id=9, stats=stats(0, 1)), out=out, site=place)
    opened = open_page(page(run.trace), address="#e=0")
    opened.press("Home", "h")
    assert opened.rows == ["▸ h.0 … h.2 × 3 alike Block Inf begins inside"]
    opened.press("l")
    assert opened.rows[1] == "torch.exp Inf begins"
    bad = "[...document.querySelectorAll('#rows .row:not([hidden])')].map((row) => row.classList.contains('bad'))"
    assert opened(bad) == [True, True]
    assert "✗ Inf in 1 of them, first in" in opened.details


def test_blocks_whose_calls_are_on_other_lines_are_not_folded(open_page: Open) -> None:
    """The first block calls one line three times, the second three lines once."""
    run = Run()
    for number in range(2):
        with run.inside(run.module(f"h.{number}", "Block", leaf=False, out=tensor(2))):
            for line in range(3):
                place = Site("train.py", 5 + number * line, "f", "x")
                out = tensor(2, stats=stats(line, 10 * number + line))
                run.call("function", "torch.relu", out=out, site=PLACES.setdefault((number, place.line), place))
    opened = open_page(page(run.trace))
    assert list(zip(opened.rows, cells(opened, 3), cells(opened, 5), strict=True)) == [
        ("▾ h.0 Block", "", ""),
        ("torch.relu() × 3 alike", "0 … 2", "train.py:5"),
        ("▾ h.1 Block", "", ""),
        ("torch.relu()", "0 … 10", "train.py:5"),
        ("torch.relu()", "1 … 11", "train.py:6"),
        ("torch.relu()", "2 … 12", "train.py:7"),
    ]


PLACES: dict[tuple[int, int], Site] = {}


def test_a_call_with_nan_inputs_is_not_an_origin(open_page: Open) -> None:
    run = Run()
    given, out = tensor(2, id=1, stats=stats(0, 1, nan=1)), tensor(2, id=2, stats=stats(0, 1, nan=1))
    with run.inside(run.module("", "Net", given, leaf=False, out=out)):
        run.call("function", "torch.relu", given, out=out)
    opened = open_page(page(run.trace))
    assert opened.rows == ["▾ Net", "torch.relu NaN comes in"]
    opened.press("Home")
    assert "NaN FIRST SEEN" in opened.details.replace("NAN", "NaN")
    opened.press("f")
    assert "NaN is in an input, and no call of this page made it; output 1/10 NaN" in opened.details
    opened.press("h", "h")
    assert opened.rows == ["▸ Net NaN inside"]
    unknown = Run()
    unknown.call("function", "torch.log", tensor(2, id=1), out=out)
    assert open_page(page(unknown.trace)).rows == ["torch.log NaN comes out"]
    known = Run()
    known.call("function", "torch.log", tensor(2, id=1, stats=stats(-1, 1)), out=out)
    assert open_page(page(known.trace)).rows == ["torch.log NaN begins"]
    assert "1 event ·" in open_page(page(known.trace))("document.getElementById('about').textContent") + " ·"
