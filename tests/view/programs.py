"""Programs that are recorded, and the names of the rows of their trees."""

from __future__ import annotations

import linecache
import textwrap
from pathlib import Path
from typing import Any

import torch

import insitu
from insitu.view import replay
from insitu.view.tree import Tree


def recorded(folder: Path, text: str, name: str = "program.py", **names: Any) -> insitu.Trace:
    """The trace of a program in a file of this folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    linecache.checkcache(str(path))
    code = compile(path.read_text(), str(path), "exec")
    torch.manual_seed(0)
    with insitu.record() as trace:
        exec(code, {"torch": torch, "__name__": "__main__", **names})
    return trace


def rows(trace: insitu.Trace, **options: Any) -> list[str]:
    """The names of the rows, with their guides; without the footer."""
    lines = replay(trace.events, Tree(live=False, **options))
    return ["".join(text for text, _ in line.spans) for line in lines if line.columns]
