"""What the tests of all viewers write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.store.recorded import tensor
from torch import nn

import insitu
from insitu.store.journal.journal_writer import JournalWriter
from insitu.trace.findings import Finding
from insitu.trace.trace import Trace

# The tags of `run_file`.
TAGS = ["forward/loss", "forward.h/mean", "forward.h/min", "forward.h/max", "fc.weight.grad/mean"]


def run_file(folder: Path) -> Path:
    """A run of three steps: a number, a tensor, a statistic with a NaN, and a text."""
    with JournalWriter(folder / "run.h5.parts") as journal:
        for step in range(3):
            values: list[Any] = [
                tensor("forward.loss", 0, np.float32(step)),
                tensor("forward.h", 0, np.array([step, 3 * step], np.int64)),
                ("fc.weight.grad.mean", 0, None, (), 0.5 if step else float("nan")),
                ("forward.name", 0, None, (), "a text"),
            ]
            journal.step(step, 100.0 + step, values)
    return folder / "run.h5"


def run_of_two_ranks(folder: Path) -> Path:
    """A run with one number in each of two ranks."""
    for rank in range(2):
        with JournalWriter(folder / "run.h5.parts", rank, {"world_size": 2}) as journal:
            journal.step(7, 0.0, [("loss", 0, None, (), rank + 0.5)])
    return folder / "run.h5"


def train(live: Any) -> nn.Module:
    """Record a model for three steps."""
    model = nn.Linear(3, 1)
    keep = {"weight": "stats", "**": "values"}
    with insitu.record_run(model, only=["weight", "forward.input"], keep=keep, to=live):
        for _ in range(3):
            model(torch.ones(2, 3))
    return model


def findings() -> list[Finding]:
    """One finding: a logarithm of zero."""
    with insitu.guard(action="record") as guard:
        torch.log(torch.zeros(2)).sum()
    assert len(guard.findings) == 1
    return guard.findings


def trace() -> Trace:
    """A trace of one call."""
    with insitu.record() as found:
        torch.ones(2).exp()
    return found
