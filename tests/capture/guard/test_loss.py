"""Where NaN and Inf that no call produced entered the program: reported once a loss or a gradient contains them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import insitu

NAN, INF = math.nan, math.inf


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 3))


def written_into_the_input(model: nn.Module) -> None:
    x = torch.ones(2, 3)
    x[0, 0] = NAN  # here
    x[1] = 0.5
    model(x * 2).sum().backward()


def made_of_it(model: nn.Module) -> None:
    x = torch.full((2, 3), NAN)  # here
    model(x).sum().backward()


def filled_with_it(model: nn.Module) -> None:
    x = torch.empty(2, 3)
    x.fill_(NAN)  # here
    model(x).sum().backward()


def from_a_list(model: nn.Module) -> None:
    x = torch.tensor([[1.0, 2.0, NAN]])  # here
    model(x).sum().backward()


def a_scaled_loss(model: nn.Module) -> None:
    loss = model(torch.ones(2, 3)).square().mean()
    loss = loss * INF  # here
    loss.backward()


def added_on_the_way(model: nn.Module) -> None:
    hidden = model(torch.ones(2, 3)) + torch.full((3,), NAN)  # here
    hidden.mean().backward()


def a_mask_of_the_target(model: nn.Module) -> None:
    scores = model(torch.ones(3, 3)).masked_fill(torch.eye(3).bool(), -INF)  # here
    F.cross_entropy(scores, torch.arange(3)).backward()


ENTRIES: tuple[Callable[[nn.Module], None], ...] = (
    *(written_into_the_input, made_of_it, filled_with_it, from_a_list),
    *(a_scaled_loss, added_on_the_way, a_mask_of_the_target),
)


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("run", ENTRIES)
def test_the_line_that_introduced_nan_or_inf_is_named(run: Callable[[nn.Module], None], with_model: bool) -> None:
    model = layers()
    with (
        pytest.warns(insitu.InsituWarning, match="introduced a number that is not finite, and the loss contains"),
        insitu.guard(model if with_model else None) as guard,
    ):
        run(model)
    (finding,) = guard.findings
    assert finding.kind == "incoming" and finding.site is not None and finding.site.text.endswith("# here")


def attention(model: nn.Module) -> Tensor:
    mask = torch.full((3, 3), -INF).triu(1)
    return ((model(torch.eye(3)) + mask).softmax(-1) @ torch.ones(3, 1)).sum()


def padding(model: nn.Module) -> Tensor:
    padded = torch.full((4, 3), INF)
    padded[:2] = 1.0
    return model(padded[:2]).sum()


def least(model: nn.Module) -> Tensor:
    best = torch.tensor(INF)
    loss: Tensor = model(torch.ones(2, 3)).square().mean()
    best = torch.minimum(best, loss.detach())
    return loss + 0 * best


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("run", [attention, padding, least])
def test_literals_that_reach_no_loss_are_not_findings(run: Callable[[nn.Module], Tensor], with_model: bool) -> None:
    model = layers()
    with insitu.guard(model if with_model else None) as guard:
        run(model).backward()
    assert not guard.findings


def test_a_literal_is_reported_once_in_a_training_and_counted() -> None:
    model = layers()
    with insitu.guard(model, action="record") as guard:
        for _ in range(3):
            made_of_it(model)
    (finding,) = guard.findings
    assert guard.times(finding) == 3


def test_allowed_functions_may_write_nan_into_the_loss() -> None:
    model = layers()
    with insitu.guard(model, allow=["full"]) as guard:
        made_of_it(model)
    assert not guard.findings


def test_unexplained_gradients_are_reported_at_the_end() -> None:
    model = layers()
    with (
        pytest.warns(insitu.InsituWarning, match=r"the gradient of 0\.weight contains NaN"),
        insitu.guard(model) as guard,
    ):
        (model(torch.ones(2, 3)).abs() * INF).clamp(max=1).sum().backward()
    assert [finding.kind for finding in guard.findings] == ["incoming"]
