"""A real browser that opens pages from disk, and what it had to say about them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass
class Opened:
    """A page in a tab, the requests it made and the errors it wrote."""

    page: Page
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __call__(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.page.evaluate(script, *arguments)

    def until(self, script: str, *, seconds: float = 15) -> Any:
        """Wait until a script returns something true; polled, for the page lets nobody else run code in it."""
        end = time.monotonic() + seconds
        while not (found := self.page.evaluate(script)):
            assert time.monotonic() < end, f"never true: {script}; errors: {self.errors}"
            time.sleep(0.01)
        return found

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def search(self, query: str) -> str:
        """Replace the query; returned is what is said of the hits."""
        self("document.getElementById('clear').click()")
        self.page.fill("#query", query)
        return str(self("document.getElementById('hits').textContent"))

    @property
    def rows(self) -> list[str]:
        """The texts of the first cells of the rows that are elements now."""
        script = "[...document.querySelectorAll('#rows .row:not([hidden])')].map((row) => row.children[0].innerText)"
        return [" ".join(text.split()) for text in self(script)]

    @property
    def selected(self) -> str:
        """The text of the selected row."""
        script = "document.querySelector('#rows [aria-selected=true]')?.children[0].innerText ?? ''"
        return " ".join(str(self(script)).split())

    @property
    def details(self) -> str:
        """What the pane beside the rows says."""
        return str(self("document.getElementById('details').innerText"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of one file: while it runs, asyncio belongs to it."""
    found = os.environ.get("INSITU_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail("no browser: `apt-get install chromium`, name one in INSITU_CHROMIUM, or pytest -m 'not browser'")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Opened:
    """The tab that all pages share which ask for nothing special: a new one takes half a second."""
    return _tab(browser)


@pytest.fixture
def open_page(browser: Browser, tab: Opened, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens the text of a page as a file; with options in a tab of its own. No page may write an error."""
    every: list[Opened] = []

    def opened(text: str, *, address: str = "", ready: bool = True, **options: Any) -> Opened:
        path = tmp_path / f"page-{len(every)}.html"
        path.write_text(text, "utf-8")
        result = _tab(browser, **options) if options else tab
        result.requests.clear()
        every.append(result)
        result.page.goto(path.as_uri() + address)
        if ready:
            result.until("document.body.dataset.ready")
        return result

    yield opened
    errors = [result.errors.copy() for result in every]
    tab.errors.clear()
    tab.page.emulate_media(media="screen")
    for result in every:
        if result is not tab:
            result.page.context.close()
    assert errors == [[] for _ in every]


def _tab(browser: Browser, **options: Any) -> Opened:
    options.setdefault("viewport", {"width": 1280, "height": 800})
    tab = Opened(browser.new_context(**options).new_page())
    tab.page.on("request", lambda request: tab.requests.append(request.url))
    tab.page.on("console", lambda message: tab.errors.append(message.text))
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.page.on("dialog", lambda dialog: (tab.errors.append("a dialog"), dialog.dismiss()))
    return tab
