"""Notebooks that are really run, in a kernel of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient


@dataclass(frozen=True)
class Output:
    """One output of a cell: printed text or a traceback, else the forms in which an object is displayed."""

    text: str = ""
    forms: dict[str, str] = field(default_factory=dict)


class Client(NotebookClient):
    """A client that notes the kinds of messages that the kernel sends."""

    kinds: tuple[str, ...] = ()

    def process_message(self, msg: dict[str, Any], *args: Any) -> Any:
        self.kinds += (msg["msg_type"],)
        return super().process_message(msg, *args)


def run(cells: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, *, allow_errors: bool = False) -> Client:
    """A client that has run the cells in this folder, where all that the kernel writes stays."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(folder / name.lower()))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip("\n")) for cell in cells])
    resources = {"metadata": {"path": folder}}
    client = Client(book, timeout=100, kernel_name="python3", resources=resources, allow_errors=allow_errors)
    client.execute()
    nbformat.validate(book)
    return client


def outputs(
    cells: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, *, allow_errors: bool = False
) -> list[list[Output]]:
    """The outputs of each cell."""
    client = run(cells, folder, monkeypatch, allow_errors=allow_errors)
    return [[_output(item) for item in cell.outputs] for cell in client.nb.cells]


def messages(cells: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of all messages that the kernel sends while it runs the cells."""
    return list(run(cells, folder, monkeypatch).kinds)


def _output(item: nbformat.NotebookNode) -> Output:
    if item.output_type == "stream":
        return Output(text=item.text)
    if item.output_type == "error":
        return Output(text="\n".join(item.traceback))
    return Output(forms=dict(item.data))


def executed(cells: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The forms of the last object that each of the cells displays."""
    return [each[-1].forms if each else {} for each in outputs(cells, folder, monkeypatch)]
