"""MLflow with a store in a file: the tests ask its own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest

mlflow = pytest.importorskip("mlflow", reason="make sinks")

from tests.sinks.recorded import TAGS, findings, run_file, run_of_two_ranks, trace, train  # noqa: E402

import insitu  # noqa: E402
from insitu.integrations import mlflow as sink  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the package


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An experiment whose artifacts are in the folder; a new database takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    return str(mlflow.create_experiment("test", artifact_location=f"{folder}/artifacts"))


@pytest.fixture
def active(store: str) -> Iterator[str]:
    with mlflow.start_run(experiment_id=store) as run:
        yield run.info.run_id


def numbers(run_id: str, name: str) -> list[tuple[int, float]]:
    return [(each.step, each.value) for each in mlflow.MlflowClient().get_metric_history(run_id, name)]


def artifact(run_id: str, path: str) -> str:
    return Path(mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path=path)).read_text("utf-8")


def test_curves_have_the_steps_and_times_of_the_run(active: str, tmp_path: Path) -> None:
    assert sink.write(run_file(tmp_path)) == TAGS
    assert numbers(active, "forward/loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert numbers(active, "forward.h/max") == [(0, 0.0), (1, 3.0), (2, 6.0)]
    (step, first), *others = numbers(active, "fc.weight.grad/mean")
    assert step == 0 and isnan(first) and others == [(1, 0.5), (2, 0.5)]
    history = mlflow.MlflowClient().get_metric_history(active, "forward/loss")
    assert [each.timestamp for each in history] == [100_000, 101_000, 102_000]


def test_more_numbers_than_mlflow_takes_at_once(active: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "MOST_METRICS", 2)
    sink.write(run_file(tmp_path))
    assert numbers(active, "forward/loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_ranks_have_names_of_their_own(active: str, tmp_path: Path) -> None:
    assert sink.write(run_of_two_ranks(tmp_path), active) == ["rank0/loss", "rank1/loss"]
    assert [numbers(active, f"rank{rank}/loss") for rank in range(2)] == [[(7, 0.5)], [(7, 1.5)]]


def test_live_scalars(active: str) -> None:
    with sink.MlflowScalars() as live:
        model: Any = train(live)
    assert [step for step, _ in numbers(active, "weight/std")] == [0, 1, 2]
    assert numbers(active, "weight/mean")[0][1] == pytest.approx(model.weight.mean().item())


def test_findings_are_a_table_and_a_page_is_an_artifact(active: str) -> None:
    sink.write_findings(findings())
    table = json.loads(artifact(active, "insitu/findings.json"))
    assert table["columns"] == ["severity", "kind", "path", "place", "text"]
    ((severity, kind, _, place, text),) = table["data"]
    assert (severity, kind) == ("error", "inf") and "recorded.py:" in place and "torch.log" in text
    sink.write_page(trace())
    assert artifact(active, "insitu/page.html").startswith("<!doctype html>")


def test_names_have_no_character_that_mlflow_refuses(active: str, tmp_path: Path) -> None:
    from insitu.store.journal.journal_writer import JournalWriter

    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("Net#2.forward.d['a b']", 0, None, (), 2.5)])
    (name,) = sink.write(tmp_path / "run.h5")
    assert numbers(active, name) == [(0, 2.5)]


def test_without_a_run_an_error_says_what_to_call(store: str, tmp_path: Path) -> None:
    with pytest.raises(insitu.ChoiceError, match=r"call mlflow.start_run\(\) before, or pass run_id"):
        sink.write(run_file(tmp_path))
