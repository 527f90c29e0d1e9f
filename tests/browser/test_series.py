"""Variables over steps, in a real browser: cards, strips, search, zoom, pins, two runs; and that many stay fluid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Opened
from tests.browser.runs import HOSTILE, hostile, training

from insitu.trace.compare.traces import compare_traces
from insitu.trace.curve import BandCurve, Curve, Numbers
from insitu.trace.event import Event, Stats, Variable
from insitu.trace.trace import Trace
from insitu.trace.variable_curves import VariableCurves, reduced
from insitu.verbs.save import save
from insitu.view.html import page
from insitu.view.page.series_pane import SeriesPane, StepMark

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
NAN = float("nan")


def number(path: str, values: Sequence[float], *, steps: Sequence[int] | None = None, rank: int = 0) -> Curve:
    """A curve of numbers."""
    numbers = Numbers.of_numbers(np.array(values, np.float64))
    place = np.arange(len(values)) if steps is None else np.array(steps)
    is_whole = all(isinstance(value, int) for value in values)
    return Curve.of_points(rank, place, np.zeros(len(values)), numbers, is_whole=is_whole)


def variable(path: str, *ranks: Sequence[float], **options: Any) -> VariableCurves:
    """A variable that is a number on each rank."""
    curves = [number(path, values, rank=rank, **options) for rank, values in enumerate(ranks)]
    return VariableCurves(path, "variable", "float", tuple(curves))


def tensor(
    path: str, role: str = "gradient", *, steps: int = 40, scale: float = 1.0, nan_from: int | None = None
) -> Any:
    """A tensor known by its statistics; its norm is 5 times the scale at first, and falls."""
    factor = scale * np.linspace(1, 0.1, steps)
    odd = np.zeros(steps) if nan_from is None else (np.arange(steps) >= nan_from).astype(float)
    columns = {"count": np.full(steps, 25.0), "min": -2 * factor, "max": 3 * factor, "mean": 0.6 * factor}
    columns |= {"std": 0.8 * factor, "nan": odd, "inf": np.zeros(steps), "zeros": np.zeros(steps)}
    curve = Curve.of_points(0, np.arange(steps), np.zeros(steps), Numbers.of_statistics(columns))
    return VariableCurves(path, role, "25 elements", (curve,), norm="statistics")  # type: ignore[arg-type]


def text(path: str, values: Sequence[str]) -> VariableCurves:
    return VariableCurves(path, "variable", "str", bands=(BandCurve.of_texts(0, range(len(values)), values),))


def shown(open_page: Open, *variables: VariableCurves, **options: Any) -> Opened:
    """A page of these variables, in which nothing is remembered from another page."""
    opened = open_page(page(series=SeriesPane(list(variables), **options), title="a run"))
    opened("localStorage.clear()")
    opened.page.reload()
    opened.until("document.body.dataset.ready")
    return opened


def paths(opened: Opened) -> list[str]:
    """The paths of the cards that are open, in their order."""
    return list(opened("[...document.querySelectorAll('.series-card')].map((card) => card.dataset.path)"))


def readings(opened: Opened) -> list[str]:
    """What each card shows at its head."""
    return list(opened("[...document.querySelectorAll('.card-head .reading')].map((one) => one.textContent)"))


def drawn_pixels(opened: Opened, path: str) -> int:
    """How many pixels of a chart are not empty."""
    script = """(path) => {
        const card = [...document.querySelectorAll('.series-card')].find((each) => each.dataset.path === path);
        const canvas = card.querySelector('canvas');
        if (!canvas.width) return 0;
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((value, place) => place % 4 === 3 && value > 0).length;
    }"""
    return int(opened(script, path))


def wait_for_drawing(opened: Opened, path: str) -> None:
    opened.page.wait_for_timeout(50)
    for _ in range(200):
        if drawn_pixels(opened, path):
            return
        opened.page.wait_for_timeout(20)
    raise AssertionError(f"{path} was not drawn: {opened.errors}")


def test_a_variable_has_one_card_with_its_last_value(open_page: Open) -> None:
    opened = shown(open_page, variable("loss", [2.0, 1.5, 1.25]), tensor("head.weight.grad"), tensor("a.b", "output"))
    assert paths(opened) == ["loss", "head.weight.grad", "a.b"]
    assert readings(opened) == ["1.25", "-0.2 … 0.3", "-0.2 … 0.3"]
    assert "25 elements" in opened("document.querySelector('[data-path=\"a.b\"]').textContent")
    for path in paths(opened):
        wait_for_drawing(opened, path)


def test_values_that_are_not_finite_are_said_in_words(open_page: Open) -> None:
    opened = shown(
        open_page,
        variable("loss", [2.0, NAN, NAN]),
        tensor("h.0.weight.grad", nan_from=39),
        variable("n", [4096, 131072]),
    )
    assert readings(opened) == ["NaN", "131072", "NaN · -0.2 … 0.3"]
    loss = opened("document.querySelector('.series-card').textContent")
    assert "✗ NaN or Inf in 2 steps, first 1" in loss
    note = opened("document.querySelector('.first-odd').innerText")
    assert note.startswith("first NaN or Inf: step 1 in loss")
    opened.page.click(".first-odd button")
    assert opened("document.activeElement.closest('.series-card').dataset.path") == "loss"


def test_pointing_at_a_step_shows_it_in_all_cards(open_page: Open) -> None:
    rows = [10.0 - step for step in range(10)]
    opened = shown(open_page, variable("a", rows), variable("b", [2 * value for value in rows]), tensor("c"))
    wait_for_drawing(opened, "a")
    plot = opened.page.locator(".series-card .plot").first
    plot.focus()
    opened.press("ArrowLeft")
    assert readings(opened)[:2] == ["2", "4"]
    assert "step 8: 2" in plot.get_attribute("aria-valuetext")  # type: ignore[operator]
    opened.press("ArrowLeft", "ArrowLeft")
    assert readings(opened)[:2] == ["4", "8"]
    assert opened("[...document.querySelectorAll('.series-card .cross')].every((cross) => !cross.hidden)")
    box = plot.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + box["width"] - 12, box["y"] + 40)
    assert readings(opened)[:2] == ["1", "2"]
    tip = opened("document.querySelector('.series-tip').innerText")
    assert "step 9" in tip and "value" in tip
    opened.page.mouse.move(5, 5)
    assert opened("document.querySelector('.series-tip').hidden")


def test_tip_of_a_tensor_has_all_statistics(open_page: Open) -> None:
    opened = shown(open_page, tensor("w.grad"), variable("loss", [1.0]), variable("lr", [1.0]))
    wait_for_drawing(opened, "w.grad")
    opened.page.locator("[data-path='w.grad'] .plot").hover(position={"x": 56, "y": 40})
    tip = " ".join(opened("document.querySelector('.series-tip').innerText").split())
    assert "step 0 mean 0.6 min … max -2 … 3 std 0.8 norm 5" in tip


def test_dragging_shows_fewer_steps_and_a_double_click_shows_all(open_page: Open) -> None:
    opened = shown(open_page, variable("a", range(100)), variable("b", range(100)), variable("c", range(100)))
    wait_for_drawing(opened, "a")
    plot = opened.page.locator(".series-card .plot").first
    box = plot.bounding_box()
    assert box is not None
    middle = box["y"] + 50
    opened.page.mouse.move(box["x"] + box["width"] * 0.4, middle)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    opened.page.mouse.up()
    button = opened.page.locator(".series-tools button")
    text = button.inner_text()
    assert text.startswith("steps ") and text.endswith(" ×")
    first, last = map(int, text.removeprefix("steps ").removesuffix(" ×").split("–"))
    assert 20 < first < 45 and 45 < last < 70
    opened.page.mouse.dblclick(box["x"] + 100, middle)
    assert button.is_hidden()
    plot.focus()
    opened.press("+")
    assert button.is_visible()
    opened.press("0")
    assert button.is_hidden()


def test_search_finds_paths_as_patterns_and_as_parts(open_page: Open) -> None:
    names = ["h.0.attn.weight.grad", "h.1.attn.weight.grad", "h.1.mlp.weight", "head.weight"]
    opened = shown(
        open_page,
        *(tensor(name) for name in names[:2]),
        *(tensor(name, "parameter") for name in names[2:]),
        variable("loss", [NAN]),
    )
    opened.press("/")
    assert opened("document.activeElement.id") == "series-query"
    for query, expected in {
        "h.*.attn.**": names[:2],
        "attn": names[:2],
        "h.1 weight": names[1:3],
        "H.1.MLP.*": ["h.1.mlp.weight"],
        "nan:": ["loss"],
    }.items():
        opened.page.fill("#series-query", query)
        assert sorted(paths(opened)) == expected, query
    assert "1 of 5 variables" in opened("document.querySelector('.series-count').innerText")
    opened.page.fill("#series-query", "zzz")
    assert opened("document.querySelector('.groups').innerText") == "no variable matches zzz"


def test_cards_are_grouped_by_module_and_by_part(open_page: Open) -> None:
    names = [f"h.{layer}.{part}" for layer in range(2) for part in ("attn.weight", "mlp.weight")]
    opened = shown(open_page, *(tensor(name, "parameter") for name in names), variable("loss", [1.0]))
    heads = "[...document.querySelectorAll('.group-head b')].map((head) => head.innerText)"
    assert opened(heads) == ["h.0", "h.1"]
    opened.page.click(".group-head >> nth=0")
    assert paths(opened) == [*names[2:], "loss"]
    opened.page.select_option(".series-tools select >> nth=0", "part")
    assert opened(heads) == ["h.*.attn.weight", "h.*.mlp.weight", "loss"]
    assert paths(opened)[:2] == [names[0], names[2]]
    opened.page.select_option(".series-tools select >> nth=0", "none")
    assert paths(opened) == [*names, "loss"]


def test_many_groups_begin_folded(open_page: Open) -> None:
    every = [tensor(f"h.{layer}.{part}.weight", "parameter", steps=3) for layer in range(20) for part in "abcde"]
    opened = shown(open_page, *every)
    assert 20 <= len(paths(opened)) <= 30
    assert opened("document.querySelectorAll('.group-head').length") == 20
    opened.page.fill("#series-query", "h.19.**")
    assert len(paths(opened)) == 5


def test_pinned_cards_are_first_and_remembered(open_page: Open) -> None:
    opened = shown(open_page, variable("a", [1.0]), variable("b", [1.0]), variable("c", [1.0]))
    opened.page.click("[data-path=c] .pin")
    assert paths(opened) == ["c", "a", "b"]
    opened.page.reload()
    opened.until("document.body.dataset.ready")
    assert paths(opened) == ["c", "a", "b"]
    assert opened("document.querySelector('[data-path=c] .pin').getAttribute('aria-pressed')") == "true"
    opened.page.click("[data-path=c] .pin")
    assert paths(opened) == ["a", "b", "c"]


def test_the_norm_of_a_layer_can_be_read_from_its_card_and_from_the_strip(open_page: Open) -> None:
    layers = [
        tensor(f"h.{layer}.weight.grad", scale=10.0**-layer, nan_from=30 if layer == 2 else None) for layer in range(4)
    ]
    opened = shown(open_page, *layers, tensor("h.0.weight", "parameter"), tensor("h.1.weight", "parameter"))
    assert opened("document.querySelector('.strip h2').innerText") == "Gradients: l2 norm, layer by step"
    opened.page.select_option(".series-tools select >> nth=1", "norm")
    opened.until("document.querySelector('.card-head .reading').innerText === '0.5'")
    strip = opened.page.locator(".strip .plot")
    strip.focus()
    opened.press("Home", "ArrowDown")
    assert "h.1.weight.grad, step 39: 0.05" in str(strip.get_attribute("aria-valuetext"))
    opened.press("ArrowDown")
    assert "h.2.weight.grad, step 39: ✗ NaN" in str(strip.get_attribute("aria-valuetext"))
    opened.press("Enter")
    assert opened("document.activeElement.closest('.series-card').dataset.path") == "h.2.weight.grad"
    legend = opened("document.querySelector('.strip-legend').innerText")
    assert "0.0005" in legend and "5" in legend and "NaN or Inf" in legend
    opened.page.click(".strip .choices button >> nth=1")
    assert opened("document.querySelector('.strip h2').innerText").startswith("Parameters")
    assert "2 layers" in str(strip.get_attribute("aria-label"))


def test_a_click_on_the_strip_goes_to_the_card_of_the_layer(open_page: Open) -> None:
    opened = shown(open_page, *(tensor(f"h.{layer}.weight.grad") for layer in range(40)))
    strip = opened.page.locator(".strip .plot")
    box = strip.bounding_box()
    assert box is not None
    rows = "document.querySelector('.strip-marker')"
    opened.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] - 24)
    assert opened(f"{rows}.style.height") != ""
    opened.page.mouse.click(box["x"] + box["width"] - 20, box["y"] + box["height"] - 24)
    assert opened("document.activeElement.closest('.series-card').dataset.path") == "h.39.weight.grad"


def test_texts_are_bands_with_their_labels(open_page: Open) -> None:
    opened = shown(
        open_page,
        text("phase", ["warmup"] * 4 + ["train"] * 5 + ["eval"]),
        variable("a", range(10)),
        variable("b", range(10)),
    )
    wait_for_drawing(opened, "phase")
    assert readings(opened)[2] == "eval" and paths(opened)[2] == "phase"
    opened.page.locator("[data-path=phase] .plot").hover(position={"x": 70, "y": 20})
    tip = opened("document.querySelector('.series-tip').innerText")
    assert "warmup" in tip and "steps 0–3" in tip


def test_ranks_share_a_card(open_page: Open) -> None:
    opened = shown(
        open_page,
        variable("loss", [2.0, 1.0], [3.0, 1.5]),
        variable("many", *([float(rank), 1.0] for rank in range(20))),
        variable("c", [1.0]),
    )
    legend = opened("document.querySelector('[data-path=loss] .legend').textContent")
    assert legend.split() == ["rank", "0", "1", "rank", "1", "1.5"]
    many = opened("document.querySelector('[data-path=many]').textContent")
    assert "mean and range of 20 ranks" in many


def test_missing_steps_are_counted(open_page: Open) -> None:
    steps = [*range(10), *range(15, 25)]
    opened = shown(
        open_page,
        variable("a", [1.0] * 20, steps=steps),
        variable("b", [1.0] * 5, steps=[0, 10, 20, 30, 40]),
        variable("c", [1.0]),
    )
    assert "5 steps missing" in opened("document.querySelector('[data-path=a]').textContent")
    assert "missing" not in opened("document.querySelector('[data-path=b]').textContent")


def test_notes_and_marks_of_a_run_are_shown(open_page: Open) -> None:
    marks = [StepMark(2, "attempt", "attempt 1 begins")]
    opened = shown(
        open_page,
        variable("a", range(5)),
        variable("b", range(5)),
        variable("c", range(5)),
        notes=["rank 3 left no journal"],
        marks=marks,
    )
    assert opened("document.querySelector('.series-notes').innerText") == "rank 3 left no journal"
    wait_for_drawing(opened, "a")
    opened.page.locator("[data-path=a] .plot").focus()
    plot = opened.page.locator("[data-path=a] .plot")
    box = plot.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + 54 + (box["width"] - 64) / 2, box["y"] + 30)
    assert "attempt 1 begins" in opened("document.querySelector('.series-tip').innerText")


def test_log_scale_and_smoothing_change_the_picture(open_page: Open) -> None:
    opened = shown(open_page, variable("a", [10.0**-step for step in range(9)]), tensor("b"), variable("c", [1.0]))
    wait_for_drawing(opened, "a")
    picture = "document.querySelector('[data-path=a] canvas').toDataURL()"
    linear = opened(picture)
    opened.page.click("text=log scale")
    opened.page.wait_for_timeout(100)
    log = opened(picture)
    opened.page.locator("input[type=range]").fill("0.9")
    opened.page.wait_for_timeout(100)
    assert len({linear, log, opened(picture)}) == 3


def test_points_of_several_steps_say_so(open_page: Open) -> None:
    values = np.linspace(1, 0, 100_000)
    values[50_001] = 9.0
    many = reduced(variable("loss", values.tolist()), 1000)
    opened = shown(open_page, many, variable("b", range(5)), variable("c", range(5)))
    card = opened("document.querySelector('[data-path=loss]').textContent")
    assert "100,000 steps, 128 in each point" in card
    wait_for_drawing(opened, "loss")
    plot = opened.page.locator("[data-path=loss] .plot")
    box = plot.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + 54 + (box["width"] - 64) * 49_984 / 99_999, box["y"] + 30)
    tip = opened("document.querySelector('.series-tip').innerText")
    assert "steps 49,920–50,047" in tip and "9" in tip  # the peak is not lost


def test_variables_of_a_trace_lead_to_their_changes(open_page: Open) -> None:
    opened = open_page(page(training()))
    opened.page.click("#views [data-view=series]")
    assert paths(opened) == ["loss", "weights"]
    assert not opened("document.getElementById('grid').checkVisibility()")
    wait_for_drawing(opened, "loss")
    plot = opened.page.locator("[data-path=loss] .plot")
    box = plot.bounding_box()
    assert box is not None
    opened.page.mouse.click(box["x"] + 54 + (box["width"] - 64) / 3, box["y"] + box["height"] / 2)
    assert opened.selected.startswith("loss") and opened("document.getElementById('grid').checkVisibility()")
    assert "step 1" in opened.details and "2.5" in opened.details
    opened.press("v")
    opened.page.click("[data-path=loss] .red a")
    assert "step 3" in opened.details and "NaN" in opened.details


def test_the_last_change_of_a_step_is_the_value_of_the_step(open_page: Open) -> None:
    changes = [(0, 2.0), (1, 1.5), (1, NAN)]
    events: list[Event] = [
        Variable(place, None, "loss", value, ("values",), step=step) for place, (step, value) in enumerate(changes)
    ]
    events += [Variable(9 + step, None, "seen", 1_234_567 + step, ("values",), step=step) for step in range(2)]
    opened = open_page(page(Trace(events)))
    opened.press("v")
    assert readings(opened) == ["NaN", "1234568"]


def two_runs() -> Any:
    """Two runs of three variables: one differs a little, one much, one not at all."""

    def events(factor: float) -> list[Event]:
        found: list[Event] = []
        for step in range(20):
            values = {"same": 1.0, "little": 1.0 + factor * step / 1000, "much": 1.0 + factor * max(0, step - 9)}
            found += [
                Variable(len(found) + place, None, name, value, ("values",), step=step)
                for place, (name, value) in enumerate(values.items())
            ]
        return found

    return compare_traces(Trace(events(0.0)), Trace(events(1.0)), labels=("before", "after"))


def test_a_comparison_of_runs_begins_with_the_variable_that_differs_most(open_page: Open) -> None:
    opened = open_page(page(two_runs()))
    assert opened("document.body.dataset.view") == "series"
    assert paths(opened) == ["much", "little", "same"]
    cards = opened("[...document.querySelectorAll('.series-card')].map((card) => card.textContent)")
    assert "▼ differs from step 10" in cards[0] and "91 %" in cards[0]
    assert "▼ differs from step 1" in cards[1]
    assert "the same in both" in cards[2]
    legend = opened("document.querySelector('[data-path=much] .legend').textContent")
    assert legend.split() == ["before", "1", "after", "11"]
    wait_for_drawing(opened, "much")
    opened.page.locator("[data-path=much] .plot").focus()
    opened.press("ArrowLeft", "ArrowLeft")
    assert opened("document.querySelector('[data-path=much] .legend').textContent").split() == [
        "before",
        "1",
        "after",
        "9",
    ]


def test_a_large_card_and_back(open_page: Open) -> None:
    opened = shown(open_page, variable("a", range(5)), variable("b", range(5)), variable("c", range(5)))
    wait_for_drawing(opened, "a")
    height = "document.querySelector('[data-path=a] canvas').clientHeight"
    small = opened(height)
    opened.page.click("[data-path=a] .card-button >> nth=0")
    assert opened(height) > 2 * small
    opened.page.click("[data-path=a] .card-button >> nth=0")
    assert opened(height) == small


def test_hostile_paths_and_texts_run_nothing(open_page: Open) -> None:
    bad = [
        variable(HOSTILE, [1.0, 2.0]),
        tensor(f"{HOSTILE}.0.grad"),
        tensor(f"{HOSTILE}.1.grad"),
        text(f"t.{HOSTILE}", [HOSTILE, "b"]),
    ]
    marks = [StepMark(0, HOSTILE, HOSTILE)]
    opened = shown(open_page, *bad, notes=[HOSTILE], marks=marks)
    opened.page.locator(".plot").first.hover()
    opened.page.locator(".series-card .plot").first.hover()
    opened.press("/", "s", "Escape")
    assert opened("window.pwned") is None and len(opened.requests) <= 2
    opened = open_page(page(hostile()))
    opened.press("v")
    opened.page.locator(".series-card .plot").first.hover()
    assert opened("window.pwned") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_violations_among_variables(open_page: Open, scheme: str) -> None:
    every = [
        variable("loss", [1.0, NAN]),
        tensor("h.0.weight.grad"),
        tensor("h.1.weight.grad"),
        text("phase", ["a", "b"]),
    ]
    subjects = [page(series=SeriesPane(every, notes=["rank 3 left no journal"])), page(two_runs())]
    for subject in subjects:
        opened = open_page(subject, color_scheme=scheme, bypass_csp=True)
        opened((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
        for keys in ([], ["/", "h", "Escape"], ["Tab"]):
            opened.press(*keys)
            opened.page.locator(".series-card .plot").first.hover()
            found = opened("axe.run().then((result) => result.violations)")
            assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


@pytest.mark.parametrize("width", [390, 1000, 1600])
def test_nothing_is_wider_than_the_window(open_page: Open, width: int) -> None:
    every = [tensor(f"encoder.layers.{layer}.self_attention.output.dense.weight.grad") for layer in range(3)]
    text_of = page(series=SeriesPane([*every, variable("a.b", [1.0, 2.0]), text("phase", ["a" * 70, "b"])]))
    opened = open_page(text_of, viewport={"width": width, "height": 800})
    assert opened("document.getElementById('series').scrollWidth <= document.getElementById('series').clientWidth")
    assert opened("document.documentElement.scrollWidth") <= width


def test_300_variables_of_100000_steps_stay_fluid(open_page: Open) -> None:
    steps = 100_000
    every = [reduced(tensor(f"h.{layer}.weight.grad", steps=steps, scale=1 + layer), 1000) for layer in range(300)]
    size = page(series=SeriesPane(every))
    assert len(size) < 6_000_000
    opened = open_page(size)
    assert opened("performance.getEntriesByName('ready')[0].startTime") < 4000
    assert len(paths(opened)) < 60
    wait_for_drawing(opened, "h.0.weight.grad")
    canvases = "[...document.querySelectorAll('.series-card canvas')].filter((canvas) => canvas.width > 0).length"
    opened.page.select_option(".series-tools select >> nth=0", "none")
    assert len(paths(opened)) == 300
    wait_for_drawing(opened, "h.0.weight.grad")
    assert opened(canvases) < 60  # only those that can be seen are drawn
    opened("document.getElementById('series').scrollTo(0, 1e6)")
    wait_for_drawing(opened, "h.299.weight.grad")
    opened.until(f"{canvases} < 60")


def test_the_page_of_a_recorded_run_joins_statistics(open_page: Open, tmp_path: Path) -> None:
    import torch

    import insitu

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.record_run(model, only="**.weight.grad", keep="stats", to=tmp_path / "run.h5"):
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    save(insitu.load(tmp_path / "run.h5"), tmp_path / "run.html")
    opened = open_page((tmp_path / "run.html").read_text("utf-8"))
    assert paths(opened) == ["0.weight.grad", "1.weight.grad"]  # the order of the model, not of the backward pass
    assert "12 elements" in opened("document.querySelector('.series-card').textContent")
    assert len(opened.requests) == 1


def evaluated(browser: Browser, names: Sequence[str], script: str) -> Any:
    """What a script returns that uses some of the files of the page."""
    folder = files("insitu.view") / "page" / "web"
    source = "\n".join((folder / f"{name}.js").read_text("utf-8") for name in names)
    tab = browser.new_page()
    try:
        return tab.evaluate(f"() => {{ {source}\n return {script}; }}")
    finally:
        tab.close()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("linearScale(0, 10, 5).ticks", [0, 5, 10]),
        ("linearScale(-0.012, 0.02, 4).ticks", [-0.01, 0, 0.01, 0.02]),
        ("linearScale(3, 3, 4).place(3)", 0.5),
        ("linearScale(-1.7e308, 1.7e308, 4).place(0)", 0.5),
        ("logScale(1, 1000, 1, 5).ticks", [1, 10, 100, 1000]),
        ("logScale(-100, 100, 0.1, 8).place(0)", 0.5),
        ("logScale(-100, 100, 0.1, 8).ticks.includes(0)", True),
        ("logScale(0, 0, Infinity, 5).ticks.length > 0", True),
        ("logScale(2, 3, 2, 5).ticks.length > 1", True),
        ("stepTicks(0, 299, 4)", [0, 100, 200]),
        ("stepTicks(7, 9, 8)", [7, 8, 9]),
        ("[stepText(120), stepText(12000), stepText(1.5e6)]", ["120", "12k", "1.5M"]),
        (
            "smoothed([1, NaN, 3], 0.5).map((value) => Number.isNaN(value) ? null : value)",
            [1, None, 2.3333333333333335],
        ),
    ],
)
def test_scales(browser: Browser, script: str, expected: Any) -> None:
    assert evaluated(browser, ["series_scale"], script) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("path", "module", "part"),
    [
        ("h.0.attn.weight.grad", "h.0", "h.*.attn.weight.grad"),
        ("encoder.layers.3.mlp.0.bias", "encoder.layers.3", "encoder.layers.*.mlp.*.bias"),
        ("forward.loss", "forward", "forward.loss"),
        ("loss", "", "loss"),
        ("0.weight", "0", "*.weight"),
    ],
)
def test_groups_of_paths(browser: Browser, path: str, module: str, part: str) -> None:
    assert evaluated(browser, ["series_groups"], f"[modulePrefix('{path}'), withoutNumbers('{path}')]") == [
        module,
        part,
    ]


def test_the_norm_of_statistics_is_that_of_the_elements() -> None:
    values = np.array([[3.0, -4.0, 0.0, 12.0]])
    exact = Numbers.of_tensors(values)
    stats = Stats(count=4, min=-4.0, max=12.0, mean=float(values.mean()), std=float(values.std()), zeros=1)
    named = {
        name: np.array([getattr(stats, name)]) for name in ("count", "min", "max", "mean", "std", "nan", "inf", "zeros")
    }
    assert exact.norm == pytest.approx(13.0) and Numbers.of_statistics(named).norm == pytest.approx(13.0)
