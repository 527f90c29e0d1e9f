"""Weights & Biases, offline: the tests read the file that would be sent to the server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest

wandb = pytest.importorskip("wandb", reason="make sinks")

from tests.sinks.recorded import TAGS, findings, run_file, run_of_two_ranks, trace, train  # noqa: E402

import insitu  # noqa: E402
from insitu.integrations import wandb as sink  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the package


@pytest.fixture
def active(tmp_path: Path) -> Iterator[Any]:
    with wandb.init(mode="offline", dir=tmp_path, project="test", settings=wandb.Settings(silent=True)) as run:
        yield run


HEADER, BLOCK, FULL, LAST = 7, 32768, 1, 4


def records(run: Any) -> list[Any]:
    """The records of a run that has ended: another process writes them, and is not done when `finish` returns."""
    run.finish()
    (path,) = Path(run.settings.sync_dir).glob("*.wandb")
    for _ in range(600):
        found = parsed(path.read_bytes())
        if any(each.WhichOneof("record_type") == "exit" for each in found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"{path} has no end")


def parsed(data: bytes) -> list[Any]:
    """The records in a file, which has the log format of LevelDB."""
    from wandb.proto import wandb_internal_pb2

    place, parts = HEADER, b""
    found = []
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        parts += data[place + HEADER : place + HEADER + size]
        place += HEADER + size
        if kind in (FULL, LAST):
            found.append(wandb_internal_pb2.Record.FromString(parts))
            parts = b""
    return found


def history(run: Any) -> list[dict[str, Any]]:
    """What was logged, without what Weights & Biases adds."""
    rows = [each.history.item for each in records(run) if each.WhichOneof("record_type") == "history"]
    items = [{"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row} for row in rows]
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in items]


def test_curves_have_the_steps_of_the_run(active: Any, tmp_path: Path) -> None:
    active.log({"mine": 1.0})  # steps of others do not matter
    assert sink.write(run_file(tmp_path)) == TAGS
    mine, *rows = history(active)
    assert mine == {"mine": 1.0}
    assert [row["insitu/step"] for row in rows] == [0, 1, 2]
    assert [row["forward/loss"] for row in rows] == [0.0, 1.0, 2.0]
    assert [row["forward.h/max"] for row in rows] == [0.0, 3.0, 6.0]
    first, *others = [row["fc.weight.grad/mean"] for row in rows]
    assert isnan(float(first)) and others == [0.5, 0.5]
    metrics = {each.metric.name: each.metric for each in records(active) if each.WhichOneof("record_type") == "metric"}
    assert set(TAGS) <= set(metrics)
    assert metrics["forward/loss"].step_metric == "insitu/step"


def test_ranks_have_tags_of_their_own(active: Any, tmp_path: Path) -> None:
    assert sink.write(run_of_two_ranks(tmp_path), active) == ["rank0/loss", "rank1/loss"]
    assert history(active) == [{"insitu/step": 7, "rank0/loss": 0.5, "rank1/loss": 1.5}]


def test_live_scalars_are_one_row_for_each_step(active: Any) -> None:
    with sink.WandbScalars() as live:
        model: Any = train(live)
    rows = history(active)
    assert [row["insitu/step"] for row in rows] == [0, 1, 2]
    assert rows[0]["weight/mean"] == pytest.approx(model.weight.mean().item()) and "weight/std" in rows[2]
    assert not [tag for tag in rows[0] if "input" in tag]


def test_findings_are_a_table(active: Any) -> None:
    sink.write_findings(findings())
    (row,) = history(active)
    assert row["insitu/findings/_type"] == "table-file"
    table = json.loads(Path(active.dir, row["insitu/findings/path"]).read_text("utf-8"))
    assert table["columns"] == ["severity", "kind", "path", "place", "text"]
    ((severity, kind, _, place, text),) = table["data"]
    assert (severity, kind) == ("error", "inf") and "recorded.py:" in place and "torch.log" in text


def test_a_page_is_an_artifact(active: Any) -> None:
    sink.write_page(trace())
    artifacts = [each for each in records(active) if "artifact" in str(each.WhichOneof("record_type"))]
    assert artifacts and "insitu-page" in str(artifacts[0]) and "page.html" in str(artifacts[0])


def test_without_a_run_an_error_says_what_to_call(tmp_path: Path) -> None:
    with pytest.raises(insitu.ChoiceError, match=r"call wandb.init\(\) before"):
        sink.write(run_file(tmp_path))
    with pytest.raises(insitu.ChoiceError, match="to=3 is not a run"):
        sink.WandbScalars(3)


def test_a_trace_is_refused(active: Any, tmp_path: Path) -> None:
    insitu.save(trace(), tmp_path / "trace.h5")
    with pytest.raises(insitu.ChoiceError, match="is a trace, and Weights & Biases shows recorded runs"):
        sink.write(tmp_path / "trace.h5")
