"""Notebooks that are really run, in a kernel of their own."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient


def executed(cells: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What each of the cells shows, by the type of it; run in this folder, where all that the kernel writes stays."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder / name.lower()))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=100, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    nbformat.validate(book)
    outputs = [cell.outputs for cell in book.cells]
    return [dict(shown[-1].data) if shown else {} for shown in outputs]
