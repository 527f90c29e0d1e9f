"""The flame and the overview in a real browser: zoom, pan, the axis, readable labels, threads."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Opened
from tests.browser.runs import training
from tests.view.build import Run, tensor

from insitu.trace.event import Call
from insitu.trace.trace import Trace
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
NAME = "document.getElementById('flame-name').innerText"


def run_script(browser: Browser, name: str, script: str, argument: Any = None) -> Any:
    """What a script returns that uses the functions of one file of the page."""
    source = (files("insitu.view") / "page" / "web" / f"{name}.js").read_text("utf-8")
    many = "const many = (n) => n.toLocaleString('en');"
    tab = browser.new_page()
    found = tab.evaluate(f"(argument) => {{ {many} {source}\n {script} }}", argument)
    tab.close()
    return found


def test_ticks_are_round_and_few(browser: Browser) -> None:
    cases = [[0, 925_000, 8], [0, 10_000, 5], [123_456, 123_556, 10], [0, 1, 4]]
    found = run_script(browser, "time_scale", "return argument.map((one) => timeTicks(...one));", cases)
    assert found[0] == [0, 200_000, 400_000, 600_000, 800_000]
    assert found[1] == [0, 2000, 4000, 6000, 8000, 10_000]
    for ticks, (start, end, most) in zip(found, cases, strict=True):
        assert all(start <= tick <= end for tick in ticks) and 0 < len(ticks) <= most + 1


def test_ticks_have_the_unit_that_the_end_needs(browser: Browser) -> None:
    cases = [[0, 9], [5000, 20_000], [15_000, 20_000], [25, 90], [30_000_000, 50_000_000], [500_020, 500_040]]
    found = run_script(browser, "time_scale", "return argument.map((one) => tickText(...one));", cases)
    assert found == ["0", "0.5 ms", "1.5 ms", "2.5 µs", "3 s", "50.002 ms"]


def test_a_window_zooms_around_a_place_and_stays_inside(browser: Browser) -> None:
    script = """
        const shown = new TimeWindow(1000, 11000);
        shown.width = 100;
        shown.zoom(50, 0.1);
        const close = [shown.from, shown.to, shown.isWhole];
        shown.pan(1000);
        const left = [shown.from, shown.to];
        shown.pan(-100000);
        const right = [shown.from, shown.to];
        shown.zoom(0, 1000);
        return [close, left, right, shown.isWhole, shown.x(6000), shown.time(50)];
    """
    found = run_script(browser, "time_scale", script)
    assert found == [[5500, 6500, False], [1000, 2000], [10_000, 11_000], True, 50, 6000]


@pytest.fixture
def opened(open_page: Open) -> Opened:
    opened = open_page(page(training()), address="#e=0")
    opened.page.click("#views [data-view=flame]")
    opened.until("document.getElementById('flame').getBoundingClientRect().height % 20 === 0")
    opened("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    return opened


def flame(opened: Opened) -> dict[str, float]:
    """Where the flame is."""
    found: dict[str, float] = opened("document.getElementById('flame').getBoundingClientRect().toJSON()")
    return found


def pixels(opened: Opened) -> Any:
    """The picture of the flame, as text."""
    return opened("document.getElementById('flame').toDataURL()")


def changed(opened: Opened, before: Any) -> Any:
    """The picture once it has changed, and no other one is waiting."""
    opened.until(f"document.getElementById('flame').toDataURL() !== {before!r}")
    opened("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    return pixels(opened)


def test_the_flame_names_the_selected_step(opened: Opened) -> None:
    assert opened(NAME).startswith("step 0 · ")
    opened.press("t", "G")
    opened.until(f"{NAME}.startsWith('step 3 · ')")


def test_wheel_zooms_drag_pans_and_escape_shows_all_again(opened: Opened) -> None:
    whole, box = pixels(opened), flame(opened)
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10)
    opened.page.mouse.wheel(0, -600)
    close = changed(opened, whole)
    opened.until("!document.getElementById('unzoom').hidden")
    selected = opened("location.hash")
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] / 2 - 200, box["y"] + 10, steps=5)
    opened.page.mouse.up()
    changed(opened, close)
    assert opened("location.hash") == selected  # a drag is not a click
    opened.press("Escape")
    opened.until(f"document.getElementById('flame').toDataURL() === {whole!r}")
    assert opened("document.getElementById('unzoom').hidden")


def test_a_click_selects_and_a_double_click_zooms_into_a_call(opened: Opened) -> None:
    whole, box = pixels(opened), flame(opened)
    opened.page.mouse.click(box["x"] + 40, box["y"] + 10)
    assert "GPT" in opened.details
    opened.page.mouse.dblclick(box["x"] + box["width"] * 0.3, box["y"] + 30)
    close = changed(opened, whole)
    assert "Block" in opened.details or "Embedding" in opened.details
    opened.page.click("#unzoom")
    changed(opened, close)
    assert opened("document.getElementById('unzoom').hidden")


def test_keys_and_buttons_zoom(opened: Opened) -> None:
    whole = pixels(opened)
    opened.page.click("#zoom-in")
    close = changed(opened, whole)
    opened.press("+")
    closer = changed(opened, close)
    opened.press("-", "-")
    changed(opened, closer)
    opened.until("document.getElementById('unzoom').hidden")
    opened.press("t", "j", "w", "z")
    opened.until("!document.getElementById('unzoom').hidden")


def test_the_tooltip_has_name_time_and_share(opened: Opened) -> None:
    box = flame(opened)
    opened.page.mouse.move(box["x"] + 40, box["y"] + 10)
    tip = opened.until("document.getElementById('tip').innerText")
    assert tip.splitlines()[0] == "GPT" and "% of the step" in tip
    opened.page.mouse.move(box["x"] + 40, box["y"] - 60)
    assert opened("document.getElementById('tip').hidden")


def luminance(colour: str) -> float:
    """How bright a colour is, by the rules of WCAG."""
    channels = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_are_readable_on_every_colour(open_page: Open, scheme: str) -> None:
    opened = open_page(page(training()), color_scheme=scheme)
    colours = opened("""() => {
        const names = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
            .filter((rule) => rule.selectorText === ":root").flatMap((rule) => [...rule.style])
            .filter((name) => name === "--text" || name.startsWith("--flame-"));
        const probe = document.body.appendChild(document.createElement("span"));
        return Object.fromEntries(names.map((name) => {
            probe.style.color = `var(${name})`;
            return [name, getComputedStyle(probe).color];
        }));
    }""")
    text = colours.pop("--text")
    assert len(colours) == 12
    assert {name: contrast(text, colour) for name, colour in colours.items() if contrast(text, colour) < 4.5} == {}
    for hue in ("module", "function", "aten", "python", "red", "other"):  # a backward call is told from a forward one
        assert contrast(colours[f"--flame-{hue}"], colours[f"--flame-{hue}-back"]) > 1.2


def test_threads_have_bands_of_their_own(open_page: Open) -> None:
    calls = [
        Call(0, None, "module", "A", result=tensor(2), start=0, duration=1000, thread=0),
        Call(1, 0, "function", "torch.relu", start=100, duration=500, thread=0),
        Call(2, None, "module", "B", result=tensor(2), start=200, duration=900, thread=3),
    ]
    lanes = "document.getElementById('flame').getBoundingClientRect().height / 20"
    opened = open_page(page(Trace(list(calls))))
    opened.press("w")
    opened.until(f"{lanes} === 5")  # two names, two levels, one level
    opened = open_page(page(Trace(list(calls[:2]))))
    opened.press("w")
    opened.until(f"{lanes} === 2")


def test_the_box_of_the_overview_can_be_dragged(open_page: Open) -> None:
    run = Run()
    for number in range(400):
        run.call("function", f"torch.f{number}", out=tensor(number + 1), duration=1000)
    opened = open_page(page(run.trace))
    assert opened.rows[0] == "torch.f0()"
    box = opened("document.getElementById('minimap').getBoundingClientRect().toJSON()")
    opened.page.mouse.move(box["x"] + 3, box["y"] + 15)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + 3 + box["width"] / 2, box["y"] + 15, steps=6)
    opened.page.mouse.up()
    opened.until("document.getElementById('grid').scrollTop > 3000")
    assert "torch.f0()" not in opened.rows
    assert opened("location.hash") == "#e=0"  # the selection stays
    opened.page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 15)
    assert opened.selected == "torch.f399()"
