"""Whether a program can run with a fix."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.trace.advice import Fix
from insitu.trace.explain.soundness import is_sound

SOURCE = """\
import torch
def run(x):
    y = [t + 1 for t in x]
    return y
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "model.py"
    path.write_text(SOURCE, "utf-8")
    yield str(path)
    linecache.clearcache()


SOUND = [
    ("y = [t.detach() + 1 for t in x]", "replace", True),
    ("y = torch.stack([t + 1 for t in x])", "replace", True),
    ("y = [t + 1 for t in x].index(t)", "replace", False),
    ("y = F.relu(x)", "replace", False),
    ("y = max(x, key=0, key=1)", "replace", False),
    ("y = (x", "replace", False),
    ("x = x.detach()", "after", True),
    ("t = t.detach()", "after", False),
]


@pytest.mark.parametrize(("code", "action", "expected"), SOUND)
def test_a_fix_compiles_and_its_names_have_values(file: str, code: str, action: str, expected: bool) -> None:
    assert is_sound(Fix(file, 3, code, action)) is expected


def test_names_of_other_cells_of_a_notebook_may_have_values() -> None:
    linecache.cache["<cell 2>"] = (len("x = x + 1\n"), None, ["x = x + 1\n"], "<cell 2>")
    assert is_sound(Fix("<cell 2>", 1, "with torch.no_grad(): x = x + 1"))
    linecache.clearcache()
