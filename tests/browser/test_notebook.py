"""What a notebook shows, in a browser: as a notebook that is trusted, and where no script may run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.conftest import Opened
from tests.notebooks import executed

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PROGRAM = """
from insitu.trace.compare.traces import compare_traces
from tests.view.hostile import hostile_trace
trace, other = hostile_trace(), hostile_trace()
other.calls[4].raised = "ValueError"
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The HTML of a trace and of a diff, full of hostile names, as a notebook that was run has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=":")
        folder = tmp_path_factory.mktemp("notebook")
        _, trace, diff = executed([PROGRAM, "trace", "compare_traces(trace, other)"], folder, patch)
    outputs = "".join(f"<div class=output>{bundle['text/html']}</div>" for bundle in (trace, diff))
    return f"<!doctype html><meta charset=utf-8><title>notebook</title>{outputs}"


def test_pages_open_in_their_frames_and_no_other_script_runs(shown: str, open_page: Callable[..., Opened]) -> None:
    opened = open_page(shown, ready=False)
    frames = opened.page.frames[1:]
    assert len(frames) == 2
    end = time.monotonic() + 20
    while not all(frame.locator("[role=treegrid] [role=row]").count() > 3 for frame in frames):
        assert time.monotonic() < end, "the pages did not come up"
        time.sleep(0.1)
    assert opened("document.querySelectorAll('script, .output img').length") == 0
    assert set(opened.requests[1:]) <= {"about:srcdoc"}


def test_the_list_folds_without_scripts(shown: str, open_page: Callable[..., Opened]) -> None:
    page = open_page(shown, ready=False, java_script_enabled=False).page
    trace, diff = page.locator(".output").all()
    top, row = trace.locator("summary").first, trace.locator("details div, details summary").nth(1)
    assert row.is_visible()
    top.click()
    assert not row.is_visible()
    assert "first difference: " in diff.inner_text()
