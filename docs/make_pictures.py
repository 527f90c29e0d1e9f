"""The pictures of the documentation, made by the tool: `python docs/make_pictures.py`.

It traces a small training that goes wrong and two runs that differ, writes the pages and photographs them in a browser.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch
from playwright.sync_api import Browser, Page, sync_playwright
from torch.nn import functional as F

import insitu
from insitu.demo import GPT
from insitu.view.html import page as page_of

PICTURES = Path(__file__).parent / "pictures"
WIDTH = 1400
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


def training() -> insitu.Trace:
    """Four steps of training; in the third a weight has grown so large that the scores overflow."""
    torch.manual_seed(0)
    model, tokens = GPT(), torch.randint(256, (2, 25))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trace: insitu.Trace
    with insitu.record(keep="stats") as trace:
        for step in range(4):
            trace.step()
            if step == 2:
                model.get_parameter("h.2.attn.c_attn.weight").data *= 1e20
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return trace


def difference() -> insitu.Diff:
    """Two runs of a model: in one, a LayerNorm has another epsilon."""
    torch.manual_seed(0)
    model, tokens = GPT(), torch.randint(256, (2, 24))
    with insitu.record(model, keep="stats") as before:
        model(tokens)
    setattr(model.get_submodule("h.2.ln_1"), "eps", 1e-3)  # noqa: B010
    with insitu.record(model, keep="stats") as after:
        model(tokens)
    return insitu.compare(before, after)


def values() -> insitu.Trace:
    """A model whose tensors are kept."""
    torch.manual_seed(0)
    model, tokens = GPT(), torch.randint(256, (2, 24))
    trace: insitu.Trace
    with insitu.record(model, keep="values") as trace:
        model(tokens)
    return trace


def opened(browser: Browser, path: Path, *, height: int, dark: bool = False) -> Page:
    """A page in a tab, once it has drawn itself."""
    page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="dark" if dark else "light")
    page.goto(path.as_uri())
    for _ in range(500):
        if page.evaluate("document.body.dataset.ready"):
            return page
        time.sleep(0.02)
    sys.exit(f"{path.name} never became ready")


def photograph(page: Page, path: Path) -> None:
    """Take the picture when all is drawn."""
    page.wait_for_timeout(300)
    page.screenshot(path=path)
    page.close()


def main(folder: Path = PICTURES) -> None:
    """Make all pictures."""
    browser_path = os.environ.get("INSITU_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        run, diff, kept = (Path(name) / f"{picture}.html" for picture in ("run", "diff", "values"))
        run.write_text(page_of(training(), title="GPT"), encoding="utf-8")
        diff.write_text(page_of(difference(), title="eps 1e-5 | eps 1e-3"), encoding="utf-8")
        kept.write_text(page_of(values(), title="GPT"), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=browser_path, args=ARGUMENTS)
        for picture, dark in (("page.png", False), ("page-dark.png", True)):
            page = opened(browser, run, height=800, dark=dark)
            page.keyboard.press("f")
            page.mouse.move(400, 300)
            page.mouse.wheel(0, -110)  # the modules around it, too
            photograph(page, folder / picture)
        photograph(opened(browser, diff, height=640), folder / "diff.png")
        page = opened(browser, kept, height=800)
        page.fill("#query", "softmax")
        page.keyboard.press("Enter")
        photograph(page, folder / "values.png")
        browser.close()


if __name__ == "__main__":
    main()
