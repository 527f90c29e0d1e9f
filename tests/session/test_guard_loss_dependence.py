"""A guard finds losses that no input of the model reaches; it is silent where the lineage is not complete."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import insitu
from insitu.trace.step_findings import IndependentLoss

pytestmark = pytest.mark.usefixtures("one_thread")

Forward = Callable[["Net", Tensor], Tensor]


class Net(nn.Module):
    """A model with parts that a forward function uses or not."""

    start: Tensor

    def __init__(self, compute: Forward) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        self.table = nn.Parameter(torch.randn(5, 4))
        self.register_buffer("start", torch.randn(4))
        self.data = torch.randn(6, 4)
        self.compute = compute

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(self, x)


class Twice(torch.autograd.Function):
    """A function that the tape does not look into."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * grad


def fit(model: nn.Module, loss_of: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy, passes: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(passes):
        x = torch.randn(6, 4)
        labels = x[:, :3].argmax(-1)
        optimizer.zero_grad()
        loss_of(model(x), labels).backward()
        optimizer.step()


def losses(run: Callable[[], object], *subject: nn.Module) -> list[IndependentLoss]:
    """What a guard finds about the dependence of losses."""
    torch.manual_seed(0)
    with insitu.guard(*subject, action="record") as guard:
        run()
    return [finding for finding in guard.findings if isinstance(finding, IndependentLoss)]


FAULTY: dict[str, Forward] = {
    "a buffer": lambda net, x: net.head(net.body(net.start).expand(len(x), 4)),
    "a constant of the same shape": lambda net, x: net.head(torch.zeros_like(x)),
    "a constant": lambda net, x: net.head(torch.ones(len(x), 4)),
    "a parameter": lambda net, x: net.head(net.table[:1].expand(len(x), 4)),
    "noise": lambda net, x: net.head(F.dropout(torch.randn(len(x), 4))),
}


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("has_model", [True, False])
def test_a_forward_that_leaves_its_input_out_is_found(name: str, has_model: bool) -> None:
    model = Net(FAULTY[name])
    (finding,) = losses(lambda: fit(model), *[model][:has_model])
    assert finding.site is not None and finding.site.file == __file__
    assert "what goes into model(x) does not reach the loss" in finding.text


@pytest.mark.parametrize(
    "loss_of", [nn.CrossEntropyLoss(), lambda y, labels: (y - F.one_hot(labels, 3)).square().mean()]
)
def test_labels_that_come_from_the_input_do_not_count(loss_of: Callable[[Tensor, Tensor], Tensor]) -> None:
    model = Net(FAULTY["a constant"])
    assert len(losses(lambda: fit(model, loss_of))) == 1


def test_a_single_pass_says_nothing() -> None:
    model = Net(FAULTY["a constant"])
    assert losses(lambda: fit(model, passes=1)) == []


def copied(net: Net, x: Tensor) -> Tensor:
    state = torch.zeros(len(x), 4)
    state[:, 0].copy_(x[:, 0])
    return net.head(state)  # type: ignore[no-any-return]


def added_in_place(net: Net, x: Tensor) -> Tensor:
    state = torch.zeros(len(x), 4)
    state += x
    return net.head(state)  # type: ignore[no-any-return]


def out_of_place(net: Net, x: Tensor) -> Tensor:
    state = torch.empty(len(x), 4)
    with torch.no_grad():
        torch.mul(x, 2, out=state)
    return net.head(state)  # type: ignore[no-any-return]


HEALTHY: dict[str, Forward] = {
    "all": lambda net, x: net.head(net.body(x)),
    "only detached": lambda net, x: net.head(net.body(x).detach()),
    "rows of a table": lambda net, x: net.head(net.table[x.argmax(-1)]),
    "numbers": lambda net, x: net.head(net.table[x.argmax(-1).tolist()]),
    "a number": lambda net, x: net.head(torch.full((len(x), 4), x.sum().item())),
    "whole numbers": lambda net, x: net.head(net.table[: int(x.argmax() % 5) + 1].sum(0).expand(len(x), 4)),
    "an index": lambda net, x: net.head([*net.table][x.argmax() % 5].expand(len(x), 4)),
    "an array": lambda net, x: net.head(torch.from_numpy(x.numpy() * 2)),
    "a branch": lambda net, x: net.head(
        net.start.expand(len(x), 4) if x.sum() > 0 else net.table[:1].expand(len(x), 4)
    ),
    "data of its own": lambda net, x: net.head(net.table[:1] * net.data),
    "data that enters there": lambda net, x: net.head(torch.tensor([[1.0, 2.0, 3.0, 4.0]] * len(x))),
    "written into a view": copied,
    "added in place": added_in_place,
    "written with out": out_of_place,
    "a function of the user": lambda net, x: net.head(Twice.apply(net.body(x))),
    "checkpointed": lambda net, x: checkpoint(net.head, net.body(x), use_reentrant=True),
    "checkpointed again": lambda net, x: checkpoint(lambda y: net.head(net.body(y)), x, use_reentrant=False),
    "mapped": lambda net, x: torch.vmap(net.head)(x),
}


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("has_model", [True, False])
def test_a_model_that_reads_its_input_in_any_way_is_healthy(name: str, has_model: bool) -> None:
    model = Net(HEALTHY[name])
    assert losses(lambda: fit(model), *[model][:has_model]) == []


def test_a_penalty_with_a_backward_pass_of_its_own_is_healthy() -> None:
    model = Net(HEALTHY["all"])

    def run() -> None:
        for _ in range(4):
            result = model(torch.randn(6, 4))
            sum(weight.square().sum() for weight in model.parameters()).backward()  # type: ignore[union-attr]
            result.square().mean().backward()

    assert losses(run, model) == []


def test_a_model_without_tensors_as_input_is_healthy() -> None:
    model = Net(lambda net, x: net.head(net.start))
    assert losses(lambda: [model(None).sum().backward() for _ in range(3)]) == []


def test_a_model_that_is_only_evaluated_says_nothing_about_other_losses() -> None:
    model = Net(FAULTY["a constant"])

    def run() -> None:
        for _ in range(3):
            x = torch.randn(6, 4)
            with torch.no_grad():
                model(x)
            (x @ model.head.weight.T).sum().backward()

    assert losses(run) == []


def test_data_that_meets_a_parameter_outside_of_the_model_is_not_a_label() -> None:
    model = Net(FAULTY["a constant"])
    data = torch.randn(6, 4)

    def run() -> None:
        for _ in range(3):
            (model(torch.randn(6, 4)).mean() + (data @ model.body.weight).sum()).backward()

    assert losses(run) == []
