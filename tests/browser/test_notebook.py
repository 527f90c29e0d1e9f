"""What a notebook shows, in a browser: trusted, sanitized, and where no script may run; in light and dark."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Frame
from tests.browser.conftest import Opened
from tests.browser.front_end import DARK, LIGHT, THEMES, Theme, page_of, sanitized
from tests.notebooks import executed

from insitu.view.line import Line
from insitu.view.notebook.folded_list import preformatted
from insitu.view.notebook.forms import cell
from insitu.view.terminal import INKS as TERMINAL_INKS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SET_UP = """
import torch, insitu
from insitu.trace.compare.traces import compare_traces
from tests.view.hostile import STRINGS, hostile_trace
from tests.view.notebook.test_cards import hostile_objects
torch.manual_seed(0)
trace, other = hostile_trace(), hostile_trace()
other.calls[4].raised = "ValueError"
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
with insitu.record(model, keep="stats") as recorded:
    model(torch.ones(2, 4))
with insitu.guard(action="record") as guard:
    torch.log(torch.zeros(2, requires_grad=True))
with insitu.record_run(model, only="**", keep="values", to="run.h5"):
    for step in range(30):
        model(torch.randn(2, 4) * (float("nan") if step == 20 else 1))
run = insitu.load("run.h5")
try:
    with insitu.record(model):
        model(torch.ones(2, 5))
except RuntimeError as raised:
    error = raised
"""
WATCH = "with insitu.watch(model, keep='stats'):\n    model(torch.ones(2, 4))"
CELLS = {
    "trace": "recorded",
    "hostile-trace": "trace",
    "diff": "compare_traces(trace, other)",
    "call": "recorded.calls[-1]",
    "explanation": "insitu.explain(error)",
    "guard": "guard",
    "finding": "guard.findings[0]",
    "run": "run",
    "series": "run['0']",
    "watch": WATCH,
    "hostile-call": "hostile_objects()[5]",
}
WITH_PAGE = ("trace", "hostile-trace", "diff")


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The HTML of every public noun, as a notebook that was run has it; some are full of hostile texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=":")
        folder = tmp_path_factory.mktemp("notebook")
        _, *shown = executed([SET_UP, *CELLS.values()], folder, patch)
    return {name: forms["text/html"] for name, forms in zip(CELLS, shown, strict=True)}


def frames(opened: Opened) -> list[Frame]:
    """The frames of the page, once each of them shows its rows."""
    found = opened.page.frames[1:]
    end = time.monotonic() + 30
    for element in opened.page.locator("iframe").all():
        element.scroll_into_view_if_needed()
    while not all(frame.locator("[role=treegrid] [role=row]").count() > 2 for frame in found):
        assert time.monotonic() < end, "the pages did not come up"
        time.sleep(0.1)
    return found


def test_a_trusted_notebook_shows_the_page_once_and_no_list(
    outputs: dict[str, str], open_page: Callable[..., Opened]
) -> None:
    opened = open_page(page_of(outputs), ready=False)
    assert len(frames(opened)) == len(WITH_PAGE)
    for name in WITH_PAGE:
        output = opened.page.locator(f"#{name}")
        assert output.locator("iframe").is_visible() and not output.locator(".i-static").is_visible()
        height = opened(f"document.querySelector('#{name} iframe').getBoundingClientRect().height")
        assert 400 <= height <= 640
    assert opened.page.locator("#diff pre").first.inner_text().startswith("✗ first difference: ")


def test_hostile_texts_run_nothing_and_nothing_is_requested(
    outputs: dict[str, str], open_page: Callable[..., Opened]
) -> None:
    opened = open_page(page_of(outputs), ready=False)
    frames(opened)
    assert opened("document.querySelectorAll('script, [onerror], [onclick]').length") == 0
    assert opened("[...document.images].every((image) => image.src.startsWith('data:image/svg'))")
    assert [url for url in opened.requests[1:] if url != "about:srcdoc" and not url.startswith("data:")] == []


def test_where_no_script_runs_the_list_is_shown_and_folds(
    outputs: dict[str, str], open_page: Callable[..., Opened]
) -> None:
    page = open_page(page_of(outputs), ready=False, java_script_enabled=False).page
    for name in WITH_PAGE:
        output = page.locator(f"#{name}")
        assert output.locator(".i-static").is_visible() and not output.locator("iframe").is_visible()
    trace = page.locator("#trace")
    top, row = trace.locator("summary").first, trace.locator("details li").first
    assert row.is_visible() and "Linear(4 → 8)" in row.inner_text()
    top.click()
    assert not row.is_visible()


SEEN = {
    "trace": ("Sequential", "Linear(4 → 8)", "f32[2, 8]"),
    "diff": ("first difference: ", "the calls side by side"),
    "call": ("model(torch.ones(2, 4))", "f32[2, 8] cpu"),
    "explanation": ("RuntimeError", "✗ the last dimension of input is 5, the layer takes 4"),
    "guard": ("Guard: 1 finding", "torch.log produced Inf", "why"),
    "finding": ("torch.log produced Inf", "In [1]:12"),
    "run": ("30 × f32[2, 8]", "steps 0–29", "NaN"),
    "series": ("NaN or Inf in 1 step, the first is 20", "29"),
    "watch": ("Sequential", "Linear(4 → 8)", "In [11]:2"),
}


@pytest.mark.parametrize("is_sanitized", [False, True], ids=["trusted", "sanitized"])
def test_every_noun_says_what_it_must(
    outputs: dict[str, str], open_page: Callable[..., Opened], is_sanitized: bool
) -> None:
    shown = {name: sanitized(html) if is_sanitized else html for name, html in outputs.items()}
    opened = open_page(page_of(shown), ready=False, java_script_enabled=False)
    for name, texts in SEEN.items():
        visible = " ".join(opened.page.locator(f"#{name}").inner_text().split())
        assert [text for text in texts if text not in visible] == [], (name, visible)
    if is_sanitized:
        assert opened.page.locator("iframe, style >> nth=1").count() == 0


def test_pictures_survive_a_sanitizer(outputs: dict[str, str], open_page: Callable[..., Opened]) -> None:
    opened = open_page(page_of({name: sanitized(html) for name, html in outputs.items()}), ready=False)
    for name in ("call", "run", "series"):
        script = f"[...document.querySelectorAll('#{name} img')].map((image) => image.naturalWidth)"
        widths = opened.until(script)
        assert widths and min(widths) >= 100


INKS = cell(preformatted([Line(((ink, ink),)) for ink in TERMINAL_INKS]))
CONTRAST = """
(background) => {
    const square = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    const canvas = square.getContext("2d", { willReadFrequently: true });
    const pixel = (...colours) => {
        for (const [colour, alpha] of colours) {
            canvas.globalAlpha = alpha;
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
        }
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const channel = (value) => (value <= 10 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = ([red, green, blue]) =>
        0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
    const behind = luminance(pixel([background, 1]));
    const worst = { ratio: 99, text: "" };
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        const isShown = element.checkVisibility() && walker.currentNode.data.trim() && element.tagName !== "STYLE";
        if (!isShown) continue;
        let alpha = 1;
        for (let around = element; around; around = around.parentElement) alpha *= getComputedStyle(around).opacity;
        const front = luminance(pixel([background, 1], [getComputedStyle(element).color, alpha]));
        const ratio = (Math.max(front, behind) + 0.05) / (Math.min(front, behind) + 0.05);
        if (ratio < worst.ratio) Object.assign(worst, { ratio, text: walker.currentNode.data.trim() });
    }
    return worst;
}
"""


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_texts_can_be_read_on_the_colours_of_the_notebook(
    outputs: dict[str, str], open_page: Callable[..., Opened], theme: Theme
) -> None:
    opened = open_page(page_of({**outputs, "inks": INKS}, theme), ready=False)
    worst: dict[str, Any] = opened.page.evaluate(CONTRAST, theme.background)
    assert worst["ratio"] >= 4.5, worst


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_page_has_the_colours_of_the_notebook_around_it(
    outputs: dict[str, str], open_page: Callable[..., Opened], theme: Theme
) -> None:
    opened = open_page(page_of({"trace": outputs["trace"]}, theme), ready=False, color_scheme="null")
    (frame,) = frames(opened)
    assert frame.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") is (theme is DARK)


def test_an_output_is_not_wider_than_the_notebook(outputs: dict[str, str], open_page: Callable[..., Opened]) -> None:
    opened = open_page(page_of(outputs), ready=False, viewport={"width": 700, "height": 800})
    assert opened("document.documentElement.scrollWidth") <= 700


def test_outputs_have_no_ids_that_could_clash(outputs: dict[str, str], open_page: Callable[..., Opened]) -> None:
    opened = open_page(page_of({name: html * 2 for name, html in outputs.items()}), ready=False)
    assert opened("document.querySelectorAll('.output [id], .output [name]').length") == 0


def test_outputs_are_accessible(outputs: dict[str, str], open_page: Callable[..., Opened]) -> None:
    static = {name: html for name, html in outputs.items() if name not in WITH_PAGE}
    opened = open_page(page_of(static), ready=False)
    opened((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
    found = opened("axe.run(document, { rules: { 'page-has-heading-one': { enabled: false } } })")
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found["violations"]] == []
