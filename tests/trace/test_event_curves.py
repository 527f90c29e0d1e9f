"""Watched variables over the steps, and the variables of two runs that were compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from insitu.trace.compare.traces import compare_traces
from insitu.trace.compared_variables import compared_variables
from insitu.trace.event import STATISTICS, Event, Stats, TensorFacts, Variable
from insitu.trace.event_curves import event_curves, unit_of
from insitu.trace.model_paths import ModelPaths
from insitu.trace.trace import Trace

NAN = float("nan")


def changes(name: str, values: list[Any], *, per_step: int = 1, rank: int = 0) -> list[Variable]:
    return [
        Variable(n, None, name, value, ("values",), step=n // per_step, rank=rank) for n, value in enumerate(values)
    ]


def test_last_change_of_a_step_counts_and_the_range_holds_all() -> None:
    (loss,) = event_curves(changes("loss", [4.0, 3.0, 2.5, 1.0], per_step=2))
    (curve,) = loss.curves
    assert (curve.steps.tolist(), curve.mean.tolist()) == ([0, 1], [3.0, 1.0])
    assert (curve.low.tolist(), curve.high.tolist()) == ([3.0, 1.0], [4.0, 2.5])


def test_a_trace_of_one_step_has_a_point_for_each_change() -> None:
    every = changes("x", [2.0, 2**5000, NAN, 1], per_step=9)
    assert unit_of(every) == "change" and unit_of(changes("x", [1, 2])) == "step"
    (x,) = event_curves(every, "change")
    assert x.curves[0].steps.tolist() == [0, 1, 2] and x.curves[0].odd.tolist() == [1]


def test_tensors_of_a_value_are_taken_as_one() -> None:
    most = Stats(count=4, min=1e308, max=1.7e308, mean=1.5e308, std=0.0)
    both = [TensorFacts(n, (2,), "f64", "cpu", stats=most) for n in range(2)]
    (x,) = event_curves(changes("x", [both]))
    assert x.curves[0].mean.tolist() == [1.5e308] and x.norm == "statistics"
    kept = TensorFacts(0, (2,), "f32", "cpu", kept=np.array([3.0, 4.0], np.float32))
    (y,) = event_curves(changes("y", [kept]))
    assert y.curves[0].numbers.norm.tolist() == [5.0] and y.norm == "values" and y.type == "f32[2]"


def test_texts_and_flags_are_bands() -> None:
    phase, flag = event_curves([*changes("phase", ["a", "a", "b"]), *changes("flag", [True, False, None])])
    assert [(band.first, band.last, band.text) for band in phase.bands[0].bands] == [(0, 1, "a"), (2, 2, "b")]
    assert [band.text for band in flag.bands[0].bands] == ["True", "False", "None"]


def test_numbers_that_were_none_are_curves() -> None:
    (x,) = event_curves(changes("x", [None, 1.0, 2]))
    assert x.curves[0].steps.tolist() == [1, 2] and not x.bands


def test_a_rank_without_numbers_does_not_hide_those_of_another() -> None:
    (x,) = event_curves([*changes("x", [None]), *changes("x", [1.0], rank=1)])
    assert [curve.rank for curve in x.curves] == [1]


def test_range_of_several_tensors_is_that_of_the_finite_ones() -> None:
    finite, odd = Stats(count=2, min=-1, max=3, mean=1.0, std=2.0), Stats(count=2, nan=2)
    tensors = [TensorFacts(n, (2,), "f32", "cpu", stats=stats) for n, stats in enumerate((odd, finite))]
    (x,) = event_curves(changes("x", [tensors]))
    (curve,) = x.curves
    assert (curve.low.tolist(), curve.high.tolist(), curve.odd.tolist()) == ([-1.0], [3.0], [0])


def test_deleted_variables_and_other_objects_have_no_points() -> None:
    deleted = Variable(0, None, "x", None, ("deleted",))
    assert event_curves([deleted, *changes("y", [object(), [1, 2]])]) == []


def test_each_rank_is_a_curve() -> None:
    (x,) = event_curves([*changes("x", [1.0], rank=1), *changes("x", [2.0], rank=0)])
    assert [curve.rank for curve in x.curves] == [0, 1]


def statistics(path: str, values: list[float], step: int) -> list[Event]:
    """What a recorded run has of a tensor with keep="stats"."""
    array = np.array(values)
    found = {"count": len(values), "min": array.min(), "max": array.max(), "mean": array.mean(), "std": array.std()}
    numbers: dict[str, Any] = {row.name: float(found.get(row.name, 0)) for row in STATISTICS}
    return [Variable(0, None, f"{path}.{name}", number, ("values",), step=step) for name, number in numbers.items()]


def test_statistics_of_a_tensor_are_one_variable() -> None:
    events = [event for step in range(3) for event in statistics("head.weight.grad", [3.0, 4.0 + step], step)]
    (grad,) = event_curves(events)  # type: ignore[arg-type]
    assert (grad.path, grad.role, grad.norm) == ("head.weight.grad", "gradient", "statistics")
    assert grad.curves[0].numbers.norm == pytest.approx([5.0, np.hypot(3, 5), np.hypot(3, 6)])
    (alone,) = event_curves([event for event in events if event.name.endswith("mean")])  # type: ignore[arg-type, union-attr]
    assert alone.path == "head.weight.grad.mean" and alone.norm == ""


def compared(a: list[Event], b: list[Event], **options: Any) -> Any:
    for events in (a, b):
        for number, event in enumerate(events):
            event.id = number
    return compared_variables(compare_traces(Trace(a), Trace(b), **options))


def test_variables_that_differ_most_come_first() -> None:
    def run(factor: float) -> list[Event]:
        values = {"same": [1.0] * 4, "late": [1.0, 1.0, 1.0, 1.0 + factor], "early": [1.0] + [1.0 + factor / 10] * 3}
        return [event for name, numbers in values.items() for event in changes(name, numbers)]

    late, early, same = compared(run(0.0), run(1.0))
    assert [found.a.path for found in (late, early, same)] == ["late", "early", "same"]
    assert (late.first, early.first, same.first) == (3, 1, None)
    assert late.largest == pytest.approx(0.5) and early.largest == pytest.approx(1 / 11) and same.largest == 0
    assert [found.place for found in (same, late, early)] == [0, 1, 2]


def test_a_nan_in_one_run_only_is_a_difference() -> None:
    (found,) = compared(changes("x", [1.0, 1.0]), changes("x", [1.0, NAN]))  # type: ignore[arg-type]
    assert found.first == 1 and found.largest == 1.0


def test_variables_of_one_run_only_and_renamed_ones() -> None:
    one = [*statistics("encoder.weight", [1.0, 2.0], 0), *changes("only", [1.0])]
    other = [*statistics("body.weight", [1.0, 3.0], 0)]
    found = compared(one, other, rename={"encoder": "body"})
    pairs = {(variable.a.path, variable.b.path, bool(variable.b.curves)) for variable in found}
    assert ("encoder.weight", "body.weight", True) in pairs and ("only", "only", False) in pairs


def test_variables_are_in_the_order_of_the_model() -> None:
    model = ModelPaths({"": (), "wte": ("weight",), "head": ("weight", "bias")})
    names = ["head.bias", "head.weight", "wte.weight", "loss"]
    found = event_curves([event for name in names for event in changes(name, [1.0])], model=model)
    assert [variable.path for variable in found] == ["loss", "wte.weight", "head.weight", "head.bias"]
    assert ModelPaths.from_about({"modules": "forged"}) == ModelPaths() == ModelPaths.from_about({})
