"""NaN and Inf that a program repairs are not findings; what it does not repair is found where it was produced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu.trace.findings import NonFiniteGradient, NonFiniteResult


class Net(nn.Module):
    """A layer whose output is joined with the input in one way or another; two rows of the input are zero."""

    def __init__(self, join: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.join = nn.Linear(4, 8), nn.Linear(8, 1), join

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.join(x, self.body(x)))


def trained(join: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """A guard around four steps."""
    torch.manual_seed(0)
    model, x = Net(join), torch.cat([torch.zeros(2, 4), torch.randn(6, 4)])
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    with insitu.guard(model, action="record") as guard:
        for _ in range(4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return guard


def shares(x: Tensor) -> Tensor:
    """0 / 0 in the rows of zeros."""
    return x / x.sum(1, keepdim=True)


def bounded(x: Tensor) -> Tensor:
    return x.clamp(-3, 3).sum(1, keepdim=True)


def indexed(x: Tensor, h: Tensor) -> Tensor:
    error = h - bounded(shares(x))
    good = torch.isfinite(error).all(1)
    out = torch.zeros_like(h)
    out[good] = error[good]
    return out


def set_to_zero(x: Tensor, h: Tensor) -> Tensor:
    share = shares(x)
    share[torch.isnan(share)] = 0
    return h + bounded(share)


def filled_in_place(x: Tensor, h: Tensor) -> Tensor:
    share = shares(x)
    share.masked_fill_(torch.isnan(share), 0.0)
    return h + bounded(share)


def repaired_two_lines_later(x: Tensor, h: Tensor) -> Tensor:
    share = shares(x)
    share = share * 2
    share = torch.where(x == 0, torch.zeros_like(share), share)
    return h + bounded(share)


def with_gradient(x: Tensor, h: Tensor) -> Tensor:
    noisy = h + bounded(shares(x))
    return torch.where(torch.isnan(noisy), h, noisy)


def masked_rows(x: Tensor, h: Tensor) -> Tensor:
    with torch.no_grad():
        scores = (h @ h.t()).masked_fill((x.sum(1) == 0)[:, None], float("-inf"))
        weights = torch.nan_to_num(scores.softmax(-1))
    return weights @ h


REPAIRED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "nan_to_num": lambda x, h: h + bounded(torch.nan_to_num(shares(x))),
    "masked_fill": lambda x, h: h + bounded(shares(x).masked_fill(x == 0, 0.0)),
    "nanmean": lambda x, h: h + shares(x).clamp(-3, 3).nanmean(),
    "nansum of 0 * inf": lambda x, h: h + (x.abs().log() * 0).nansum(),
    "the finite ones": lambda x, h: h + (lambda share: share[torch.isfinite(share)])(shares(x)).clamp(-3, 3).mean(),
    "clamp": lambda x, h: h + bounded(x.abs().log()),
    "where": repaired_two_lines_later,
    "where, with a gradient": with_gradient,
    "setitem": set_to_zero,
    "masked_fill_": filled_in_place,
    "index of rows": indexed,
    "rows without a key": masked_rows,
}


@pytest.mark.parametrize("name", REPAIRED)
def test_nan_that_is_repaired_is_not_a_finding(name: str) -> None:
    assert trained(REPAIRED[name]).findings == []


def multiplied_by_a_mask(x: Tensor, h: Tensor) -> Tensor:
    return h + (shares(x) * (x != 0)).clamp(-3, 3).sum(1, keepdim=True)


def mean_before_the_repair(x: Tensor, h: Tensor) -> Tensor:
    share = shares(x)
    return h + torch.nan_to_num(share - share.mean(0)).sum(1, keepdim=True)


def masked_too_late(x: Tensor, h: Tensor) -> Tensor:
    rows = (x.sum(1) == 0)[:, None]
    weights = (h @ h.t()).masked_fill(rows, float("-inf")).softmax(-1)
    return weights.masked_fill(rows, 0.0) @ h


LEFT: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str, str]] = {
    "0 * nan": (multiplied_by_a_mask, "x / x.sum(1, keepdim=True)", "model"),
    "a mean": (mean_before_the_repair, "x / x.sum(1, keepdim=True)", "spread"),
    "the gradient of softmax": (masked_too_late, ".softmax(-1)", "gradient"),
}


@pytest.mark.parametrize("name", LEFT)
def test_nan_that_is_not_repaired_is_found_where_it_was_produced(name: str) -> None:
    join, text, reach = LEFT[name]
    first = trained(join).findings[0]
    assert isinstance(first, NonFiniteResult) and first.severity == "error" and first.reach == reach
    assert first.site is not None and text in first.site.text


def hidden_root(x: Tensor, h: Tensor) -> Tensor:
    zero = h.relu() * 0
    return torch.where(zero > 0, zero.sqrt(), h)


def hidden_quotient(x: Tensor, h: Tensor) -> Tensor:
    return (h.exp() / x.abs().sum(1, keepdim=True)).clamp(max=10.0)


@pytest.mark.parametrize(("join", "text"), [(hidden_root, "zero.sqrt()"), (hidden_quotient, "h.exp() / x.abs()")])
def test_what_hides_a_value_does_not_hide_its_gradient(join: Callable[[Tensor, Tensor], Tensor], text: str) -> None:
    first = trained(join).findings[0]
    assert isinstance(first, NonFiniteGradient) and first.site is not None and text in first.site.text


def test_nan_that_several_calls_pass_on_is_found() -> None:
    reached = 0
    with pytest.raises(insitu.NonFiniteError, match="nothing repaired it before"), insitu.guard():
        x = torch.zeros(2) / torch.zeros(2)
        for _ in range(20):
            x = x.add(1).exp()
            reached += 1
    assert 2 < reached < 10


def test_nan_that_the_model_returns_is_found_although_argmax_hides_it() -> None:
    class Scores(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / x.sum(1, keepdim=True)

    with pytest.raises(insitu.NonFiniteError, match=r"the result of Scores.* contains it"), insitu.guard():
        Scores()(torch.zeros(2, 3)).argmax(-1)


def test_nan_that_an_exception_of_the_user_meets_is_told() -> None:
    def check(x: Tensor) -> None:
        if not torch.isfinite(x).all():
            raise ValueError("not finite")

    with (
        pytest.warns(insitu.InsituWarning, match=r"an exception ended the block while a tensor held it"),
        pytest.raises(ValueError, match="not finite"),
        insitu.guard(),
    ):
        quotient = torch.zeros(2) / torch.zeros(2)
        check(quotient)


def test_the_nan_of_a_result_that_was_only_moved_is_found() -> None:
    with insitu.guard(action="record") as guard:
        for _ in range(2):
            -(torch.zeros(2) / torch.zeros(2)).view(2, 1).t()
    assert [(finding.kind, guard.times(finding)) for finding in guard.findings] == [("nan", 2)]


class Normalized(torch.autograd.Function):
    """Divides by zero in its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, repair: bool) -> Tensor:
        norm = x.norm(dim=1, keepdim=True)
        ctx.save_for_backward(x, norm)
        ctx.repair = repair
        return norm

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, norm = ctx.saved_tensors
        grad = grads[0] * 2
        unit = x / norm  # here
        return (torch.nan_to_num(grad * unit) if ctx.repair else grad * unit), None


class Written(torch.autograd.Function):
    """Its backward pass writes an infinity down."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        grad = grads[0] + 1
        return grad * float("inf")  # here


@pytest.mark.parametrize("apply", [lambda x: Normalized.apply(x, False), Written.apply])
def test_the_line_in_a_hand_written_backward_is_named_and_not_its_def(apply: Callable[[Tensor], Tensor]) -> None:
    with insitu.guard(action="record") as guard:
        apply(torch.zeros(3, 2, requires_grad=True)).sum().backward()
    first = guard.findings[0]
    assert first.site is not None and first.site.text.endswith("# here") and first.severity == "error"


def test_a_hand_written_backward_that_repairs_its_nan_is_fine() -> None:
    with insitu.guard(action="record") as guard:
        Normalized.apply(torch.zeros(3, 2, requires_grad=True), True).sum().backward()
    assert guard.findings == []


def test_a_scaled_loss_may_overflow() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.01), torch.amp.GradScaler("cpu", init_scale=2.0**126)
    with insitu.guard(model) as guard:
        for _ in range(6):
            optimizer.zero_grad()
            scaler.scale(model(torch.randn(8, 4)).square().mean() * 100).backward()
            scaler.step(optimizer)
            scaler.update()
    assert scaler.get_scale() < 2.0**126 and guard.findings == []


def test_a_mask_that_a_call_returns_as_it_is_was_used() -> None:
    with insitu.guard() as guard:
        mask = torch.log(torch.tril(torch.ones(3, 3))).to("cpu")
        (torch.zeros(3, 3) + mask).softmax(-1)
    assert guard.findings == []
