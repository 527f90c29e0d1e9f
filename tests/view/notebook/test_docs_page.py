"""The page of the docs about notebooks is true in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.notebooks import executed
from tests.test_docs import DOCS, blocks


@pytest.mark.slow
def test_each_example_displays_html(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [block.text for block in blocks((DOCS / "notebook.md").read_text("utf-8")) if block.language == "python"]
    trace, call, watched, explanation = executed(cells, tmp_path, monkeypatch)
    assert "<iframe" in trace["text/html"] and trace["text/plain"].startswith("GPT ")
    assert "<mark>F.softmax(" in call["text/html"]
    assert watched["text/plain"].startswith("step 0 … 99  × 100 alike, the last:  GPT")
    assert "In [4]:2 in forward" in explanation["text/plain"] and "i-red" in explanation["text/html"]
