"""A guard finds losses that get something else than they take, and says nothing about those that get what they take."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import insitu
from insitu.trace.findings import LossMistake


def trained(before: Callable[[Tensor], Tensor], loss: Callable[[Tensor, Tensor], Tensor]) -> list[LossMistake]:
    """The mistakes that a guard finds in a training whose model ends with a function."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with insitu.guard(model, action="record") as guard:
        for _ in range(3):
            labels = torch.randint(3, (8,))
            optimizer.zero_grad()
            loss(before(model(torch.randn(8, 4))), labels).backward()
            optimizer.step()
    return [finding for finding in guard.findings if isinstance(finding, LossMistake)]


def binary(scores: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, F.one_hot(labels, 3).float())


def soft(scores: Tensor, labels: Tensor) -> Tensor:
    targets = F.softmax(torch.randn(8, 3), dim=-1)
    return F.cross_entropy(scores, targets)


@pytest.mark.parametrize(
    ("before", "loss", "text"),
    [
        (lambda x: x.softmax(-1), F.cross_entropy, "F.cross_entropy gets probabilities from .softmax"),
        (
            lambda x: F.softmax(x, dim=1).view(8, 3),
            F.cross_entropy,
            "gets probabilities from F.softmax",
        ),
        (lambda x: x.softmax(-1), F.nll_loss, "F.nll_loss gets probabilities from .softmax"),
        (lambda x: x.sigmoid(), binary, "gets probabilities from .sigmoid"),
        (lambda x: F.log_softmax(x, dim=0), F.nll_loss, "F.log_softmax normalizes over the batch"),
    ],
)
def test_wrong_input_of_a_loss_is_found(before: Callable, loss: Callable, text: str) -> None:
    (finding,) = trained(before, loss)
    assert text in finding.text and "test_guard_losses.py:" in finding.text
    assert "  why   " in finding.text and finding.severity == "warning"


@pytest.mark.parametrize(
    ("before", "loss"),
    [
        (lambda x: x, F.cross_entropy),
        (lambda x: x.log_softmax(-1), F.nll_loss),
        (lambda x: x, binary),
        (lambda x: x, soft),
        (lambda x: x.relu(), F.cross_entropy),
    ],
)
def test_right_input_of_a_loss_is_not_a_finding(before: Callable, loss: Callable) -> None:
    assert trained(before, loss) == []


def test_labels_that_are_all_ignored_name_the_call_that_cut_off_the_others() -> None:
    def labels(prompt: Tensor, answer: Tensor) -> Tensor:
        return torch.cat([torch.full_like(prompt, -100), answer])[:6]

    with insitu.guard(action="record") as guard:
        rows = torch.stack([labels(torch.ones(7, dtype=torch.long), torch.ones(2, dtype=torch.long))] * 2)
        F.cross_entropy(torch.randn(12, 3, requires_grad=True), rows.flatten()).backward()
    text = guard.findings[0].text
    assert "all labels are -100, which the loss ignores" in text
    assert f"test_guard_losses.py:{labels.__code__.co_firstlineno + 1}: torch.cat" in text
