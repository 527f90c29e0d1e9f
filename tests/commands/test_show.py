"""`insitu show` of a trace: as JSON, and with what stands beside the tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import insitu
from insitu.cli import main
from insitu.trace.event import Call, ModuleFacts, Stats, TensorFacts
from insitu.trace.trace import Trace


@pytest.fixture
def saved(tmp_path: Path) -> str:
    module = ModuleFacts("fc", "Linear", parameters=6)
    stats = Stats(count=4, min=float("-inf"), max=1.0, mean=float("nan"), std=0.5, nan=1, inf=1)
    out = TensorFacts(1, (2, 2), "f32", "cpu", producer=0, stats=stats)
    trace = Trace([Call(0, None, "module", "Linear", module, result=out), Call(1, None, "function", "torch.relu")])
    insitu.save(trace, tmp_path / "run.h5")
    return str(tmp_path / "run.h5")


def test_calls_as_json(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", saved, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [call["name"] for call in found["calls"]] == ["Linear", "torch.relu"]
    assert found["calls"][0] | {"path": "fc", "min": "-inf", "max": 1.0, "mean": "nan"} == found["calls"][0]
    assert main(["show", saved, "--json", "--only", "fc"]) == 0
    assert len(json.loads(capsys.readouterr().out)["calls"]) == 1


def test_kept_values_are_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = {"norm": float("nan"), "of": [1.0, float("inf")], 3: None}
    out = TensorFacts(1, (2,), "f32", "cpu", kept=kept)
    insitu.save(Trace([Call(0, None, "function", "torch.ones", result=out)]), tmp_path / "run.h5")
    assert main(["show", str(tmp_path / "run.h5"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["calls"][0]["kept"] == {"norm": "nan", "of": [1.0, "inf"], "3": None}


def test_a_trace_without_calls_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    insitu.save(Trace(), tmp_path / "run.h5")
    assert main(["show", str(tmp_path / "run.h5")]) == 0
    assert capsys.readouterr().err.endswith("run.h5' holds no calls\n")


def test_costs_beside_the_tree(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", saved, "--costs", "--width", "120"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [
        *("call", "output", "input", "values", "time", "own", "memory", "parameters", "flops", "source")
    ]
    assert main(["show", saved, "--costs", "--view", "table"]) == 2
    assert "--costs is an option of the view 'tree'" in capsys.readouterr().err
