"""Gradients that are cut off in one run: the call that does it is the cause, not the optimizer that reads them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.trace.test_compare_programs import line
from torch import Tensor, nn

import insitu
from insitu.trace.diff import Diff
from insitu.trace.event import Call

KEEPS = [pytest.param("stats", id="statistics"), pytest.param(torch.clone, id="values")]


class Autoencoder(nn.Module):
    """A variational autoencoder of two layers; `between` is applied to the sample."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encode, self.decode, self.between = nn.Linear(8, 4), nn.Linear(2, 8), between

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log = self.encode(x).chunk(2, -1)
        z = self.between(mean + torch.randn_like(mean) * (0.5 * log).exp())
        return self.decode(z), mean, log


def loss_of(out: Tensor, mean: Tensor, log: Tensor, x: Tensor) -> Tensor:
    return F.mse_loss(out, x) - 0.01 * (1 + log - mean.pow(2) - log.exp()).mean()


def unchanged(z: Tensor) -> Tensor:
    return z


def detached(z: Tensor) -> Tensor:
    return z.detach()  # fault


def through_data(z: Tensor) -> Tensor:
    return z.data  # fault


def trained(model: nn.Module, keep: Any, *, subject: bool = False, **options: Any) -> insitu.Trace:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.linspace(-1, 1, 40).reshape(5, 8)
    torch.manual_seed(1)
    with insitu.record(*([model] if subject else []), keep=keep, **options) as trace:
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(*model(x), x).backward()
            optimizer.step()
    return trace


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("between", [detached, through_data])
@pytest.mark.parametrize("options", [{}, {"subject": True}, {"level": "aten"}], ids=["all", "model", "aten"])
def test_detach_is_the_cause(between: Callable[[Tensor], Tensor], keep: Any, options: dict[str, Any]) -> None:
    runs = [trained(Autoencoder(cut), keep, **options) for cut in (unchanged, between)]
    for one, other, name in ((*runs, "b"), (*reversed(runs), "a")):
        diff = insitu.compare(one, other)
        first = diff.first
        assert first is not None and (first.kind, first.effect) == ("gradient", "results"), str(diff)
        site = first.sites[1 if name == "b" else 0]
        assert site is not None and site.line == line(between)
        assert (
            first.why.startswith(f"only {name} makes this call: requires_grad is ") and f"False in {name}" in first.why
        )
        assert len(diff.causes) == 1 and first.followers > 0, str(diff)


def test_call_without_gradients_is_the_cause() -> None:
    def run(frozen: bool) -> insitu.Trace:
        torch.manual_seed(0)
        first, second, x = nn.Linear(4, 4), nn.Linear(4, 2), torch.randn(3, 4)
        with insitu.record(keep="stats") as trace:
            with torch.no_grad() if frozen else nullcontext():
                hidden = first(x)
            second(hidden).sum().backward()
            first.weight.grad  # noqa: B018  as an optimizer reads it
        return trace

    diff = insitu.compare(run(False), run(True))
    assert diff.first is not None and isinstance(diff.first.a, Call) and diff.first.kind == "gradient"
    assert diff.first.a.name.endswith("linear") and len(diff.causes) == 1
    assert diff.first.why == "requires_grad is False in b, True in a"


def test_frozen_parameter_is_named() -> None:
    def run(trains: bool) -> insitu.Trace:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        net[0].weight.requires_grad_(trains)
        with insitu.record(net, keep="stats") as trace:
            net(torch.ones(3, 4)).sum().backward()
        return trace

    diff = insitu.compare(run(True), run(False))
    assert diff.first is not None and isinstance(diff.first.a, Call) and diff.first.a.path == "0"
    assert diff.first.why == "requires_grad of weight f32[4, 4] is False in b, True in a"


def compared(*runs: Callable[[], object]) -> Diff:
    traces = []
    for run in runs:
        torch.manual_seed(0)
        with insitu.record(keep=torch.clone) as trace:
            run()
        traces.append(trace)
    return insitu.compare(*traces)


def test_detach_for_a_message_is_not_a_cause() -> None:
    def run(copies: bool) -> None:
        loss = nn.Linear(4, 2)(torch.ones(3, 4)).sum()
        shown = loss.detach() if copies else loss
        shown.item()
        loss.backward()

    diff = compared(lambda: run(False), lambda: run(True))
    assert diff.first is None and diff.agrees and not diff.same


def test_without_backward_gradients_have_no_effect() -> None:
    model = copy.deepcopy(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))

    def run(mode: Any) -> None:
        with mode:
            model(torch.ones(3, 4))

    diff = compared(lambda: run(nullcontext()), lambda: run(torch.no_grad()))
    assert diff.first is None and diff.agrees and not diff.same
    assert [row.what for row in diff.differences if row.status != "same"] == ["requires_grad is False in b, True in a"]
    assert compared(lambda: run(torch.no_grad()), lambda: run(torch.no_grad())).same


def test_backward_that_fails_because_of_a_detach() -> None:
    def run(cut: bool) -> None:
        loss = nn.Linear(4, 2)(torch.ones(3, 4)).sum()
        loss = loss.detach() if cut else loss
        with suppress(RuntimeError):
            loss.backward()

    diff = compared(lambda: run(False), lambda: run(True))
    assert diff.first is not None and diff.first.b is not None and diff.first.b.name == "torch.Tensor.detach"
    assert len(diff.causes) == 1
