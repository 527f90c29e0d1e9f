from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from insitu.errors import ChoiceError, MissingError, StoreError
from insitu.view.plot import RED, curves, draw

NAN, INF = float("nan"), float("inf")


@dataclass
class Made:
    """A variable, made by hand: a row is (step, rank, value)."""

    rows: list[tuple[int, int, Any]]
    name: str = "forward.x"
    dtype: str = "float32"
    shape: tuple[int, ...] | None = None
    times: Any = field(init=False)

    def __post_init__(self) -> None:
        steps, ranks, self.values = zip(*self.rows, strict=True)
        self.steps, self.ranks, self.times = np.array(steps), np.array(ranks), np.arange(len(steps))

    def __iter__(self) -> Any:
        return iter(self.values)


def test_a_point_has_the_mean_and_the_range_of_the_finite_values() -> None:
    (curve,) = curves(Made([(3, 0, np.array([1.0, NAN, 5.0])), (4, 0, np.array([-INF])), (5, 0, np.empty(0))]))
    assert (curve.rank, curve.steps, curve.low, curve.mean, curve.high) == (
        0,
        [3, 4, 5],
        [1.0, None, None],
        [3.0, None, None],
        [5.0, None, None],
    )
    assert curve.odd == [3, 4] and not curve.is_flat


def test_the_mean_of_the_largest_numbers_is_a_number() -> None:
    most = np.finfo(np.float64).max
    (curve,) = curves(Made([(0, 0, np.array([most, most])), (0, 0, np.array([most, 0.0])), (1, 0, most), (1, 0, most)]))
    assert curve.mean == [0.75 * most, most]


def test_ranks_are_curves_and_calls_of_a_step_one_point() -> None:
    one, two = curves(Made([(0, 1, 4), (0, 0, 1), (0, 0, 3.0), (1, 0, True)], dtype="json"))
    assert (one.rank, one.steps, one.mean, one.high) == (0, [0, 1], [2.0, 1.0], [3.0, 1.0])
    assert (two.rank, two.steps, two.mean) == (1, [0], [4.0]) and two.is_flat


@pytest.mark.parametrize(
    ("value", "mean"),
    [
        *((np.array([True, False]), 0.5), (np.array([3 + 4j]), 5.0), (np.array(7, np.int8), 7.0)),
        *((3j, 3.0), (2**70, float(2**70)), (np.array([255], np.uint8), 255.0)),
    ],
)
def test_every_kind_of_number_has_a_place(value: Any, mean: float) -> None:
    assert curves(Made([(0, 0, value)]))[0].mean == [mean]


def test_types_that_numpy_lacks_have_one_too() -> None:
    import ml_dtypes

    assert curves(Made([(0, 0, np.array([1.5], ml_dtypes.bfloat16))]))[0].mean == [1.5]


@pytest.mark.parametrize("value", ["text", None, (1, 2), 10**400, np.array(["a"])])
def test_what_is_no_number_cannot_be_drawn(value: Any) -> None:
    assert curves(Made([(0, 0, value)])) == []
    with pytest.raises(ChoiceError, match=r"'forward.x': no numbers, and nothing to draw"):
        draw([Made([(0, 0, value)])], "out.png")


def count(path: Path, color: str) -> int:
    """How many pixels of a picture have a colour."""
    pixels = imread(path)[..., :3]
    return int((abs(pixels - np.array(to_rgb(color))).max(axis=-1) < 0.02).sum())


def test_scalars_are_a_line(tmp_path: Path) -> None:
    draw([Made([(step, 0, np.float32(step**2)) for step in range(50)], shape=())], tmp_path / "out.png")
    assert count(tmp_path / "out.png", "C0") > 500 and count(tmp_path / "out.png", RED) == 0


def test_ranks_have_their_colours_tensors_a_band_and_nan_red_ticks(tmp_path: Path) -> None:
    rows = [
        (step, rank, np.array([rank * 9, rank * 9 + 4, NAN if step == 30 else rank * 9 + 5]))
        for step in range(50)
        for rank in range(4)
    ]
    draw([Made(rows)], tmp_path / "out.png")
    for color in ("C0", "C1", "C2", "C4"):
        assert count(tmp_path / "out.png", color) > 300
    assert 10 < count(tmp_path / "out.png", RED) < 300  # ticks, and no line of a rank
    light = tuple(0.2 * part + 0.8 for part in to_rgb("C0"))
    assert count(tmp_path / "out.png", light) > 3000  # type: ignore[arg-type]


def test_several_variables_stand_one_below_the_other(tmp_path: Path) -> None:
    one, two = Made([(0, 0, 1.0), (9, 0, 2.0)], "$a_b$"), Made([(0, 0, 1.0), (9, 0, 2.0)], "")
    draw([one], tmp_path / "one.png")
    draw([one, Made([(0, 0, "a text")], "text"), two], tmp_path / "two.png")
    assert imread(tmp_path / "two.png").shape[0] > imread(tmp_path / "one.png").shape[0] > 200


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    made = Made([(0, 0, 1.0)])
    with pytest.raises(ChoiceError, match=r"'out.h5' does not end in one of '.png', '.pdf', '.svg'"):
        draw([made], "out.h5")
    with pytest.raises(ChoiceError, match="13 variables do not fit into one picture"):
        draw([made] * 13, tmp_path / "out.png")
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        draw([made], tmp_path / "nowhere" / "out.png")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingError, match="drawing needs matplotlib: pip install matplotlib"):
        draw([Made([(0, 0, 1.0)])], "out.png")


def test_the_file_imports_neither_numpy_nor_matplotlib() -> None:
    program = "import insitu.view.plot, sys; print([n for n in ('numpy', 'matplotlib', 'torch') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("dtype", "value", "is_whole"),
    [
        ("int64", np.ones(2, "i8"), True),
        ("float32", np.ones(2, "f4"), False),
        ("json", 4096, True),
        ("json", 0.5, False),
    ],
)
def test_curves_know_whether_they_are_integers(dtype: str, value: Any, is_whole: bool) -> None:
    (curve,) = curves(Made([(0, 0, value)], dtype=dtype))
    assert curve.is_whole is is_whole


def test_a_step_that_ends_in_nan_has_no_mean() -> None:
    (curve,) = curves(Made([(0, 0, 2.0), (0, 0, 3.0), (1, 0, 1.5), (1, 0, NAN)], shape=()))
    assert (curve.mean, curve.low, curve.high, curve.odd) == ([2.5, None], [2.0, 1.5], [3.0, 1.5], [1])
