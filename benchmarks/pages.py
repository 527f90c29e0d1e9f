"""How long a person waits for the page of a long trace: until it is made, open, drawn, and searched.

Each page is made in a Python of its own: the most memory that it took is that of the page and of the trace.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Effort, Row, at_most

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
QUERIES = ("softmax", "mod:h.3.* nan:", "dur>50us kind:aten", "shape:2,24 step:3-40 linear", "abs>4")
SEARCH = """(query) => {
    const box = document.getElementById("query"), start = performance.now();
    box.value = query;
    box.dispatchEvent(new Event("input"));
    return (performance.now() - start) / 1000;
}"""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a page of so many events may take: bytes, and seconds to make it, open it, show its graph and search it."""

    events: int
    size: float | None
    making: float | None
    opening: float
    graph: float
    search: float


EVERY = (Limits(100_000, 3e6, None, 2, 2, 0.2), Limits(1_000_000, None, 30, 8, 8, 2))
MOST_MEMORY = 4e9  # bytes, for a million events


def rows(effort: Effort) -> Iterator[Row]:
    """Pages of two sizes."""
    with tempfile.TemporaryDirectory() as folder:
        for limits in EVERY:
            file = Path(folder, f"{limits.events}.html")
            yield from _making(limits, file)
            yield from _opening(limits, file, effort.repeats(3))


def _making(limits: Limits, file: Path) -> Iterator[Row]:
    """How long making a page takes, and how much memory."""
    command = [sys.executable, "-m", "benchmarks.pages", str(limits.events), str(file)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    name = f"a page of {limits.events:,} events"
    yield Row(f"{name}, made", [found["seconds"]], limits.making and at_most(limits.making), "s", "CPU time")
    yield Row(f"{name}, size", [file.stat().st_size], limits.size and at_most(limits.size), "B")
    if limits.making is not None:
        note = f"the trace alone takes {found['before']:,.0f} B"
        yield Row(f"{name}, most memory", [found["most"]], at_most(MOST_MEMORY), "B", note)


def _opening(limits: Limits, file: Path, repeats: int) -> Iterator[Row]:
    """How long a browser takes to show a page, and to search it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("pages: no Playwright, so that no page is opened", file=sys.stderr)
        return
    browser_path = os.environ.get("INSITU_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    opening, graphs, searching = list[float](), list[float](), list[float]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=ARGUMENTS)
        for _ in range(repeats):
            page = browser.new_page(viewport={"width": 1600, "height": 900})
            page.goto(file.as_uri())
            opening.append(_moment(page, "ready"))
            graphs.append(_moment(page, "graph"))
            searching += [page.evaluate(SEARCH, query) for query in QUERIES]
            page.close()
        browser.close()
    name = f"a page of {limits.events:,} events"
    yield Row(f"{name}, opened", opening, at_most(limits.opening), "s", "wall time")
    yield Row(f"{name}, graph shown", graphs, at_most(limits.graph), "s", "wall time")
    yield Row(f"{name}, searched", searching, at_most(limits.search), "s", f"{len(QUERIES)} queries")


def _moment(page: Any, mark: str) -> float:
    """The seconds until a page has set a mark."""
    script = "(mark) => performance.getEntriesByName(mark)[0]?.startTime"
    while (moment := page.evaluate(script, mark)) is None:
        time.sleep(0.02)
    return float(moment) / 1000


def make(events: int, file: Path) -> dict[str, float]:
    """Write the page of a trace of so many events; return what that took."""
    from tests.browser.runs import large

    from insitu.view.html import page

    trace = large(events)
    before, start = _most_memory(), time.process_time()
    text = page(trace)
    seconds = time.process_time() - start
    file.write_text(text, encoding="utf-8")
    return {"seconds": seconds, "before": before, "most": _most_memory()}


def _most_memory() -> float:
    """The most bytes that this process has had; Linux counts in KiB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


if __name__ == "__main__":
    print(json.dumps(make(int(sys.argv[1]), Path(sys.argv[2]))))
