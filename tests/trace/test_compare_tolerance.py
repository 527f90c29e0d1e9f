"""Runs that are equal within a tolerance are not called the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.trace.comparing import Program, chain, compared, given
from torch import nn

import insitu
from insitu import cli
from insitu.trace.compare.closeness import Tolerance
from insitu.trace.diff import Diff
from insitu.view.diff_facts import diff_facts


def nearly() -> Diff:
    a, b = Program(), Program()
    for run, extra in ((a, 0.0), (b, 2e-6)):
        x = run.made("relu", given(0.0), value=1.0 + extra)
        run.made("exp", x, value=2.0 + extra / 2)
        run.made("zeros", 2, value=0.0)
    return compared(a, b)


def test_equal_within_the_tolerance_is_not_the_same() -> None:
    diff = nearly()
    assert not diff.same and diff.close and diff.agrees and diff.first is None
    assert diff.counts == {"close": 2, "same": 1}
    assert diff.largest is not None and diff.largest.delta == pytest.approx(2e-6)
    assert str(diff) == (
        "equal within rtol 1.3e-06, atol 1e-05: 3 calls, 2 of them not exactly the same "
        "(largest difference: relative error ≥ 1e-06, Δ mean 2e-06, in torch.relu, model.py:1), "
        "compared by statistics, so equal only as far as these show"
    )


def test_tolerance_of_the_user_is_the_one_that_is_named() -> None:
    a, b = chain(("relu", 1.0, ())), chain(("relu", 1.25, ()))
    assert str(compared(a, b, tolerance=Tolerance(0.5, 0.25))).startswith(
        "equal within rtol 0.5, atol 0.25: 1 call, 1 of them not exactly the same (largest difference: "
        "relative error ≥ 0.111, Δ mean 0.25"
    )


def test_equal_to_the_last_bit_is_the_same() -> None:
    diff = compared(chain(("relu", 1.0, ())), chain(("relu", 1.0, ())))
    assert diff.same and diff.close and diff.agrees and diff.largest is None


def test_statistics_that_only_count_otherwise_are_not_the_same() -> None:
    a, b = chain(("relu", 1.0, ())), chain(("relu", 1.0, ()))
    facts = b.events[0].result.stats  # type: ignore[union-attr]
    b.events[0].result.stats = replace(facts, zeros=1)  # type: ignore[union-attr]
    diff = compared(a, b)
    assert diff.close and not diff.same


def test_as_json() -> None:
    facts = json.loads(json.dumps(diff_facts(nearly())))
    assert (facts["same"], facts["close"], facts["agrees"]) == (False, True, True)
    assert facts["largest"]["delta"] == pytest.approx(2e-6) and facts["largest"]["a"]["name"] == "torch.relu"
    assert facts["largest"]["rtol"] == 1.3e-6 and facts["largest"]["atol"] == 1e-5


def trained(file: Path, extra: float) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    with torch.no_grad():
        net[0].bias += extra
    with insitu.record_run(net, only=["forward", "0", "0.weight"], keep="values", to=file):
        for _ in range(5):
            net(torch.ones(2, 3)).sum().backward()
    return file


def test_recorded_runs_have_values_and_not_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = trained(tmp_path / "a.h5", 0.0), trained(tmp_path / "b.h5", 1e-6)
    assert cli.main(["diff", str(a), str(b), "--width", "200"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("equal within rtol 1.3e-06, atol 1e-05: 15 values of 3 variables, ")
    assert "not exactly the same (largest difference: relative error " in text and "step" in text
    assert "compared by their values" in text and "call" not in text
    assert cli.main(["diff", str(a), str(a)]) == 0
    assert capsys.readouterr().out.startswith("the same: 15 values of 3 variables, compared by their values")
    assert cli.main(["diff", str(a), str(b), "--rtol", "0", "--atol", "0"]) == 1


@pytest.mark.parametrize(("left_over", "status"), [(8e-6, "follows"), (1e-7, "close")])
def test_statistics_that_nearly_agree_do_not_undo_a_difference(left_over: float, status: str) -> None:
    """Elements differ by more than their statistics: nine tenths of the tolerance are too much to be sure."""
    a = chain(("softmax", 1.0, (-1,)), ("linear", 2.0, ()), ("relu", 3.0, ()))
    b = chain(("softmax", 1.5, (0,)), ("linear", 2.0 + left_over, ()), ("relu", 3.0 + left_over, ()))
    diff = compared(a, b)
    assert [row.status for row in diff.differences][1:] == [status, status]
    assert diff.agrees == (status == "close")
