"""Random numbers that differ: because of an earlier draw, or for a reason that was not recorded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import insitu
from insitu.trace.diff import Diff


def compared(*runs: Callable[[], object]) -> Diff:
    traces = []
    for run in runs:
        torch.manual_seed(0)
        with insitu.record(keep="stats") as trace:
            run()
        traces.append(trace)
    return insitu.compare(*traces)


def training(*, evaluates: bool) -> Callable[[], None]:
    """Two steps with dropout; the samples of each are drawn at random."""

    def run() -> None:
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        net.train(not evaluates)
        for _ in range(2):
            net(torch.randn(6, 4))

    return run


def test_later_draws_follow_from_the_dropout_that_did_not_draw() -> None:
    diff = compared(training(evaluates=False), training(evaluates=True))
    assert diff.first is not None and "training is False in b, True in a" in diff.first.why
    assert [cause.kind for cause in diff.causes] == ["argument"] and diff.first.times == 1
    drawn = [row.status for row in diff.differences if row.a is not None and row.a.name == "torch.randn"]
    assert drawn == ["same", "follows"]
    assert "seed" not in str(diff)


def test_later_draws_follow_from_a_draw_that_only_one_run_makes() -> None:
    def run(extra: bool) -> None:
        torch.randn(3)
        if extra:
            torch.rand(5)
        torch.randn(4).sum()

    diff = compared(lambda: run(False), lambda: run(True))
    assert diff.first is not None and diff.first.b is not None and diff.first.b.name == "torch.rand"
    assert len(diff.causes) == 1 and diff.first.seen_at is not None and diff.first.seen_at.name == "torch.randn"
    assert diff.first.why == "only b makes this call: it draws random numbers, so later draws differ"


def test_draws_of_another_size_move_the_later_ones() -> None:
    def run(size: int) -> None:
        torch.rand(size).sum()
        torch.randn(4).sum()

    diff = compared(lambda: run(3), lambda: run(30))
    assert len(diff.causes) == 1 and diff.first is not None and diff.first.why == "argument 1 is 30 in b, 3 in a"


def test_seed_set_again_after_the_extra_draw() -> None:
    def run(extra: bool, seed: int) -> None:
        if extra:
            torch.rand(5)
        torch.manual_seed(1)
        torch.randn(4).sum()
        torch.manual_seed(seed)
        torch.randn(5).sum()

    assert compared(lambda: run(False, 2), lambda: run(True, 2)).first is None
    diff = compared(lambda: run(False, 2), lambda: run(True, 3))
    assert diff.first is not None and diff.first.kind == "random"
    assert diff.first.a is not None and diff.first.a.args == (5,)


@pytest.mark.parametrize("recorded", [False, True])
def test_reason_outside_of_the_trace_is_not_called_a_seed(recorded: bool) -> None:
    def run(unseen: int) -> None:
        if recorded:
            torch.randn(2)
        generator_state = torch.Generator().manual_seed(unseen).get_state()
        torch.set_rng_state(generator_state)
        torch.randn(4).sum()

    diff = compared(lambda: run(1), lambda: run(2))
    assert diff.first is not None and diff.first.kind == "random"
    assert diff.first.why.endswith(
        "it draws random numbers, and the generators were in different states: "
        "no seed, another seed, or an earlier draw that was not recorded"
    )


def test_shuffled_samples_follow_from_the_draw_that_seeds_the_sampler() -> None:
    def run(extra: bool) -> None:
        samples = TensorDataset(torch.arange(12.0).reshape(6, 2))
        for epoch in range(2):
            for (x,) in DataLoader(samples, 2, shuffle=True):
                x.sum()
            if extra and epoch == 0:
                torch.rand(3)

    diff = compared(lambda: run(False), lambda: run(True))
    assert diff.first is not None and diff.first.b is not None and diff.first.b.name == "torch.rand"
    assert len(diff.causes) == 1, str(diff)


def test_dropout_that_is_off_does_not_draw() -> None:
    def run(scale: float) -> None:
        x = torch.ones(4)
        nn.functional.dropout(x * scale, training=False).sum()

    diff = compared(lambda: run(1.0), lambda: run(1.0))
    assert diff.same
