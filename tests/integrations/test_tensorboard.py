from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.store.recorded import tensor
from torch import nn

import insitu
from insitu.integrations import tensorboard
from insitu.store.journal.journal_writer import JournalWriter
from insitu.trace.trace import Trace


def scalars(logdir: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads."""
    found = EventAccumulator(str(logdir))
    found.Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_numbers_become_scalars_and_tensors_their_mean_and_range(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in range(3):
            tensors: list[Any] = [
                tensor("forward.loss", 0, np.float32(step)),
                tensor("forward.h", 0, np.array([step, 3 * step], np.int64)),
            ]
            values: list[Any] = [("fc.weight.grad.mean", 0, None, (), 0.5 if step else float("nan"))]
            journal.step(step, 100.0 + step, [*tensors, *values, ("forward.name", 0, None, (), "a text")])
    tags = ["forward/loss", "forward.h/mean", "forward.h/min", "forward.h/max", "fc.weight.grad/mean"]
    assert tensorboard.write(tmp_path / "run.h5", tmp_path / "logs") == tags
    found = scalars(tmp_path / "logs")
    assert sorted(found) == sorted(tags)
    assert found["forward/loss"] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert found["forward.h/mean"] == [(0, 0.0), (1, 2.0), (2, 4.0)] and found["forward.h/max"][-1] == (2, 6.0)
    assert isnan(found["fc.weight.grad/mean"][0][1]) and found["fc.weight.grad/mean"][1:] == [(1, 0.5), (2, 0.5)]


def test_each_rank_has_a_folder(tmp_path: Path) -> None:
    for rank in range(2):
        with JournalWriter(tmp_path / "run.h5.parts", rank, {"world_size": 2}) as journal:
            journal.step(0, 0.0, [("loss", 0, None, (), rank + 0.5)])
    with insitu.load(tmp_path / "run.h5") as run:
        assert tensorboard.write(run, tmp_path / "logs") == ["loss"]
    assert [scalars(tmp_path / "logs" / f"rank{rank}") for rank in range(2)] == [
        {"loss": [(0, 0.5)]},
        {"loss": [(0, 1.5)]},
    ]


def test_a_trace_is_refused(tmp_path: Path) -> None:
    insitu.save(Trace(), tmp_path / "trace.h5")
    with pytest.raises(insitu.ChoiceError, match="is a trace"):
        tensorboard.write(tmp_path / "trace.h5", tmp_path / "logs")


def test_live(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    with (
        tensorboard.LiveScalars(tmp_path / "logs") as live,
        insitu.record_run(model, only=["weight", "forward.input"], keep={"weight": "stats", "**": "values"}, to=live),
    ):
        for _ in range(3):
            model(torch.ones(2, 3))
    found = scalars(tmp_path / "logs")
    assert [step for step, _ in found["weight/mean"]] == [0, 1, 2] and "weight/std" in found
    assert found["weight/mean"][0][1] == pytest.approx(model.weight.mean().item())
    assert not [tag for tag in found if "input" in tag]
