from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from tests.store.rows import Rows

from insitu.errors import ChoiceError, MissingError, StoreError
from insitu.store.run.curves import curves
from insitu.trace.curve import Curve
from insitu.view.plot import RED, draw

NAN = float("nan")


def drawn(*series: Rows) -> dict[str, list[Curve]]:
    return {rows.name: curves(rows) for rows in series}  # type: ignore[arg-type]


def test_variables_without_numbers_cannot_be_drawn() -> None:
    with pytest.raises(ChoiceError, match=r"'forward.x': no numbers, and nothing to draw"):
        draw({"forward.x": []}, "out.png")


def count(path: Path, color: str) -> int:
    """How many pixels of a picture have a colour."""
    pixels = imread(path)[..., :3]
    return int((abs(pixels - np.array(to_rgb(color))).max(axis=-1) < 0.02).sum())


def test_scalars_are_a_line(tmp_path: Path) -> None:
    draw(drawn(Rows([(step, 0, np.float32(step**2)) for step in range(50)], shape=())), tmp_path / "out.png")
    assert count(tmp_path / "out.png", "C0") > 500 and count(tmp_path / "out.png", RED) == 0


def test_ranks_have_their_colours_tensors_a_band_and_nan_red_ticks(tmp_path: Path) -> None:
    rows = [
        (step, rank, np.array([rank * 9, rank * 9 + 4, NAN if step == 30 else rank * 9 + 5]))
        for step in range(50)
        for rank in range(4)
    ]
    draw(drawn(Rows(rows)), tmp_path / "out.png")
    for color in ("C0", "C1", "C2", "C4"):
        assert count(tmp_path / "out.png", color) > 300
    assert 10 < count(tmp_path / "out.png", RED) < 300  # ticks, and no line of a rank
    light = tuple(0.2 * part + 0.8 for part in to_rgb("C0"))
    assert count(tmp_path / "out.png", light) > 3000  # type: ignore[arg-type]


def test_several_variables_are_drawn_one_below_the_other(tmp_path: Path) -> None:
    one, two = Rows([(0, 0, 1.0), (9, 0, 2.0)], "$a_b$"), Rows([(0, 0, 1.0), (9, 0, 2.0)], "")
    draw(drawn(one), tmp_path / "one.png")
    draw(drawn(one, Rows([(0, 0, "a text")], "text"), two), tmp_path / "two.png")
    assert imread(tmp_path / "two.png").shape[0] > imread(tmp_path / "one.png").shape[0] > 200


def test_many_variables_are_small_drawings_side_by_side(tmp_path: Path) -> None:
    rows = [(0, 0, 1.0), (9, 0, 2.0)]
    draw(
        drawn(*(Rows(rows, f"h.{number}.a.very.long.path.of.a.parameter.weight") for number in range(12))),
        tmp_path / "few.png",
    )
    draw(
        drawn(*(Rows(rows, f"h.{number}.a.very.long.path.of.a.parameter.weight") for number in range(40))),
        tmp_path / "many.png",
    )
    few, many = imread(tmp_path / "few.png").shape, imread(tmp_path / "many.png").shape
    assert few[0] > 3 * few[1] and many[0] < 1.5 * many[1]
    assert count(tmp_path / "many.png", "C0") > 40 * 100


def test_drawing_errors_name_the_reason(tmp_path: Path) -> None:
    one = drawn(Rows([(0, 0, 1.0)]))
    with pytest.raises(ChoiceError, match=r"'out.h5' does not end in one of '.png', '.pdf', '.svg'"):
        draw(one, "out.h5")
    with pytest.raises(ChoiceError, match="401 variables do not fit into one picture: name 1 to 400"):
        draw({str(number): [] for number in range(401)}, tmp_path / "out.png")
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        draw(one, tmp_path / "nowhere" / "out.png")


def test_missing_matplotlib_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingError, match="drawing needs matplotlib: pip install matplotlib"):
        draw(drawn(Rows([(0, 0, 1.0)])), "out.png")


def test_the_file_imports_neither_numpy_nor_matplotlib() -> None:
    program = "import insitu.view.plot, sys; print([n for n in ('numpy', 'matplotlib', 'torch') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
