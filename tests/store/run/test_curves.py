"""The curves of a series: their points, and which steps have no mean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.rows import Rows

import insitu
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.curves import RunVariables, curves
from insitu.store.run.run import Run

NAN, INF = float("nan"), float("inf")


def known(numbers: Any) -> list[float | None]:
    """The numbers of a column, None where one is not known."""
    return [None if np.isnan(number) else number for number in numbers.tolist()]


def test_point_of_curve_has_mean_and_range_of_finite_values() -> None:
    (curve,) = curves(Rows([(3, 0, np.array([1.0, NAN, 5.0])), (4, 0, np.array([-INF])), (5, 0, np.empty(0))]))
    assert (curve.rank, curve.steps.tolist()) == (0, [3, 4, 5])
    assert known(curve.low) == [1.0, None, None]
    assert known(curve.mean) == [3.0, None, None]
    assert known(curve.high) == [5.0, None, None]
    assert curve.odd.tolist() == [3, 4] and not curve.is_flat


def test_mean_of_very_large_values_does_not_overflow() -> None:
    most = np.finfo(np.float64).max
    (curve,) = curves(Rows([(0, 0, np.array([most, most])), (0, 0, np.array([most, 0.0])), (1, 0, most), (1, 0, most)]))
    assert curve.mean.tolist() == [0.75 * most, most]


def test_each_rank_is_a_curve_and_each_step_a_point() -> None:
    one, two = curves(Rows([(0, 1, 4), (0, 0, 1), (0, 0, 3.0), (1, 0, 1)], dtype="json"))
    assert (one.rank, one.steps.tolist(), one.mean.tolist(), one.high.tolist()) == (0, [0, 1], [2.0, 1.0], [3.0, 1.0])
    assert (two.rank, two.steps.tolist(), two.mean.tolist()) == (1, [0], [4.0]) and two.is_flat


@pytest.mark.parametrize(
    ("value", "mean"),
    [
        *((np.array([True, False]), 0.5), (np.array([3 + 4j]), 5.0), (np.array(7, np.int8), 7.0)),
        *((3j, 3.0), (2**70, float(2**70)), (np.array([255], np.uint8), 255.0)),
    ],
)
def test_curve_of_each_number_type(value: Any, mean: float) -> None:
    assert curves(Rows([(0, 0, value)]))[0].mean.tolist() == [mean]


def test_curve_of_types_that_numpy_lacks() -> None:
    import ml_dtypes

    assert curves(Rows([(0, 0, np.array([1.5], ml_dtypes.bfloat16))]))[0].mean.tolist() == [1.5]


@pytest.mark.parametrize(
    ("dtype", "value", "is_whole"),
    [
        ("int64", np.ones(2, "i8"), True),
        ("float32", np.ones(2, "f4"), False),
        ("json", 4096, True),
        ("json", 0.5, False),
    ],
)
def test_curve_of_integers_is_whole(dtype: str, value: Any, is_whole: bool) -> None:
    (curve,) = curves(Rows([(0, 0, value)], dtype=dtype))
    assert curve.is_whole is is_whole


def test_a_step_that_ends_in_nan_has_no_mean() -> None:
    (curve,) = curves(Rows([(0, 0, 2.0), (0, 0, 3.0), (1, 0, 1.5), (1, 0, NAN)], shape=()))
    assert known(curve.mean) == [2.5, None]
    assert (curve.low.tolist(), curve.high.tolist(), curve.odd.tolist()) == ([2.0, 1.5], [3.0, 1.5], [1])


@pytest.mark.parametrize("value", ["text", None, (1, 2), 10**400, np.array(["a"])])
def test_values_that_are_not_numbers_have_no_curve(value: Any) -> None:
    assert curves(Rows([(0, 0, value)])) == []


# the variables of a run


def recorded(path: Path, steps: Iterable[list[Any]], **about: Any) -> Run:
    """A run with these entries for each step."""
    with JournalWriter(path / "run.h5.parts", 0, about) as journal:
        for step, entries in enumerate(steps):
            journal.step(step, 0.0, entries)
    return insitu.load(path / "run.h5")  # type: ignore[no-any-return]


def entry(path: str, value: Any, call: int = 0) -> Any:
    return (path, call, None, (), value)


def statistics(path: str, call: int = 0, **numbers: Any) -> list[Any]:
    usual = {"count": 4, "min": -1.0, "max": 2.0, "mean": 0.5, "std": 1.0, "nan": 0, "inf": 0, "zeros": 0}
    return [entry(f"{path}.{name}", number, call) for name, number in (usual | numbers).items()]


def test_statistics_of_a_tensor_are_one_variable(tmp_path: Path) -> None:
    steps = [[*statistics("w.grad", max=step), entry("loss", 1.0), entry("w.mean", 3.0)] for step in range(3)]
    with recorded(tmp_path, steps) as run:
        variables = RunVariables(run)
        assert variables.names == ["w.grad", "loss", "w.mean"]
        grad = variables["w.grad"]
        assert (grad.role, grad.type, grad.norm) == ("gradient", "4 elements", "statistics")
        assert grad.curves[0].high.tolist() == [0.0, 1.0, 2.0]
        assert grad.curves[0].numbers.norm == pytest.approx([2 * np.hypot(1.0, 0.5)] * 3)
        assert variables["w.grad.max"].curves[0].mean.tolist() == [0.0, 1.0, 2.0]
        assert variables["loss"].norm == "" and variables["loss"].type == "float"


def test_statistics_of_several_calls_are_those_of_all_their_elements(tmp_path: Path) -> None:
    calls = [statistics("h", call=call, mean=float(call), std=0.0, min=call, max=call) for call in range(2)]
    with recorded(tmp_path, [[*calls[0], *calls[1]]]) as run:
        (curve,) = RunVariables(run)["h"].curves
    assert (curve.low.tolist(), curve.mean.tolist(), curve.high.tolist()) == ([0.0], [0.5], [1.0])
    assert curve.numbers.std.tolist() == [0.5] and curve.numbers.norm.tolist() == [2.0]


def test_a_tensor_without_a_finite_element_has_no_mean(tmp_path: Path) -> None:
    unknown = dict.fromkeys(("min", "max", "mean", "std"))
    with recorded(tmp_path, [statistics("w"), statistics("w", nan=4, **unknown)]) as run:
        (curve,) = RunVariables(run)["w"].curves
    assert known(curve.mean) == [0.5, None] and curve.odd.tolist() == [1] and curve.first_odd == 1


def test_texts_and_flags_are_bands(tmp_path: Path) -> None:
    steps = [
        [entry("phase", "a" if step < 2 else "b"), entry("flag", step == 1), entry("pair", (1, None))]
        for step in range(3)
    ]
    with recorded(tmp_path, steps) as run:
        variables = RunVariables(run)
        phase, flag, pair = (variables[name] for name in ("phase", "flag", "pair"))
    assert [(band.first, band.last, band.text) for band in phase.bands[0].bands] == [(0, 1, "a"), (2, 2, "b")]
    assert [band.text for band in flag.bands[0].bands] == ["False", "True", "False"]
    assert [band.text for band in pair.bands[0].bands] == ["(1, None)"] and not phase.curves


def test_none_among_numbers_is_not_a_point(tmp_path: Path) -> None:
    with recorded(tmp_path, [[entry("x", None)], [entry("x", 2.0)], [entry("x", NAN)]]) as run:
        (curve,) = RunVariables(run)["x"].curves
    assert curve.steps.tolist() == [1, 2] and curve.odd.tolist() == [2]


def test_variables_are_in_the_order_of_the_model(tmp_path: Path) -> None:
    names = ["head.weight.grad", "wte.weight.grad", "forward.loss"]
    modules = {"": [], "wte": ["weight"], "head": ["weight"]}
    with recorded(tmp_path, [[entry(name, 1.0) for name in names]], modules=modules) as run:
        assert RunVariables(run).names == ["forward.loss", "wte.weight.grad", "head.weight.grad"]


def test_curves_of_many_steps_have_few_points(tmp_path: Path) -> None:
    with recorded(tmp_path, [[entry("loss", 1.0 + (step == 7000))] for step in range(9000)]) as run:
        variables = RunVariables(run)
        (loss,) = variables.drawn(variables.names)
    (curve,) = loss.curves
    assert len(curve) <= 4000 and curve.width == 4 and curve.weight.sum() == 9000 and curve.high.max() == 2.0


def test_a_recorded_model_names_its_modules(tmp_path: Path) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.BatchNorm1d(3))
    with insitu.record_run(model, only=["**.weight.grad", "2.running_mean", "0"], to=tmp_path / "run.h5"):
        model(torch.ones(4, 2)).sum().backward()
    with insitu.load(tmp_path / "run.h5") as run:
        variables = RunVariables(run)
        assert variables.names == ["0", "0.weight.grad", "2.weight.grad", "2.running_mean"]
        roles = [variables[name].role for name in variables.names]
    assert roles == ["output", "gradient", "gradient", "parameter"]


def test_summary_has_one_line_for_a_tensor_of_statistics(tmp_path: Path) -> None:
    steps = [[*statistics("w.grad", max=step, nan=step == 2), entry("phase", "train")] for step in range(3)]
    with recorded(tmp_path, steps) as run:
        grad, phase = run.summary().variables
        (only,) = run.summary(names=["w.grad.max"]).variables
    assert (grad.path, grad.dtype, grad.elements, grad.role) == ("w.grad", "statistics", (4, 4), "gradient")
    assert (grad.low, grad.high, grad.nan, grad.first_odd, grad.rows) == (-1.0, 2.0, 1, 2, 3)
    assert grad.norm == pytest.approx(np.sqrt(3) * np.hypot(1.0, 0.5)) and len(grad.norms) == 3
    assert phase.last == "train" and (only.path, only.high) == ("w.grad.max", 2)
