"""The pictures of the documentation are made by the tool, as it is now."""

from __future__ import annotations

import runpy
import struct
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height


@pytest.mark.browser
def test_pictures_can_be_made_anew(tmp_path: Path) -> None:
    """One of the pages, in both colours, and the moving picture: all of them take too long."""
    script = runpy.run_path(str(DOCS / "make_pictures.py"))
    visits = [visit for visit in script["VISITS"] if visit.has_dark_twin]
    script["main"](tmp_path, visits)
    made = {path.name: size(path) for path in tmp_path.iterdir()}
    assert made == {name: size(DOCS / "pictures" / name) for name in ("nan.png", "nan-dark.png", "insitu.png")}
    assert all(path.stat().st_size > 50_000 for path in tmp_path.iterdir())  # something is drawn


def test_every_visit_has_its_picture() -> None:
    visits = runpy.run_path(str(DOCS / "make_pictures.py"))["VISITS"]
    assert {visit.picture for visit in visits} <= {path.name for path in (DOCS / "pictures").iterdir()}
