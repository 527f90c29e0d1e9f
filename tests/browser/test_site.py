"""The documentation as a site: it builds without a network, and works from a folder on disk."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
FROM_ELSEWHERE = re.compile(r"<(?:script|img|iframe)[^>]*\bsrc=\"?https?:|<link[^>]*stylesheet[^>]*https?:")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["mkdocs", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(folder)]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) >= len(list(DOCS.rglob("*.md")))
    for page in pages:
        assert FROM_ELSEWHERE.search(page.read_text(encoding="utf-8")) is None, page.name


def test_search_works_from_disk(site: Path, browser: Browser) -> None:
    requests: list[Request] = []
    page = browser.new_page()
    page.on("request", lambda request: requests.append(request))
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.locator("input.md-search__input").press_sequentially("gradient norm", delay=20)  # as a user types
    page.wait_for_selector(".md-search-result__item a")
    assert page.locator(".md-search-result__item").count() > 2
    links = page.locator(".md-search-result__item a").evaluate_all("links => links.map(link => link.href)")
    found = next(link for link in links if "record.html" in link)
    page.goto(found)
    assert "gradient" in page.inner_text("article").lower()
    assert {request.url.partition(":")[0] for request in requests} <= {"file", "data", "blob"}
    page.close()


def test_reference_has_a_table_of_the_parameters_of_a_verb(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((site / "api.html").as_uri())
    rows = page.locator(".doc-function:has(#insitu\\.record) table tbody tr")
    assert "level" in rows.all_inner_texts()[1] and '"aten"' in rows.all_inner_texts()[1]
    page.close()


def test_shown_output_is_coloured(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    shape = page.locator("code .kt", has_text="f32[2, 24, 96]").first
    colours = shape.evaluate("shape => [shape, shape.closest('code')].map(part => getComputedStyle(part).color)")
    assert colours[0] != colours[1]
    page.close()


@pytest.mark.parametrize("name", ["model", "nan", "diff", "training"])
def test_gallery_opens_a_page_that_works(name: str, site: Path, browser: Browser) -> None:
    problems: list[str] = []
    page = browser.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto((site / "gallery.html").as_uri())
    with page.expect_navigation():
        page.locator(f"a[href='gallery/{name}.html']").click()
    page.wait_for_selector("body[data-ready]", timeout=20_000)
    assert problems == []
    page.close()
