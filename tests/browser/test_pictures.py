"""The pictures of the documentation are made by the tool, as it is now."""

from __future__ import annotations

import runpy
import struct
from pathlib import Path

import pytest

MADE = ("model.png", "values.png", "nan.png", "diff.png", "training.png", "nan-dark.png", "insitu.png")
DOCS = Path(__file__).parents[2] / "docs"


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height


@pytest.mark.browser
def test_the_pictures_can_be_made_anew(tmp_path: Path) -> None:
    runpy.run_path(str(DOCS / "make_pictures.py"))["main"](tmp_path)
    made = {path.name: size(path) for path in tmp_path.iterdir()}
    assert made == {name: size(DOCS / "pictures" / name) for name in MADE}
    assert all(path.stat().st_size > 50_000 for path in tmp_path.iterdir())  # something is drawn
