"""What a guard says about the numbers of whole programs: activations, updates, losses, data from NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import insitu
from insitu.trace.findings import (
    DeadActivation,
    Finding,
    LossSpike,
    NonFiniteData,
    SaturatedActivation,
    UnusualUpdates,
)


def trained(model: nn.Module, loss_of: Callable[[int], Tensor], *, steps: int = 20, **options: Any) -> list[Finding]:
    """The findings of a training, in the order of the classes' names."""
    optimizer = options.get("optimizer", torch.optim.SGD)(model.parameters(), lr=options.get("rate", 0.01))
    with insitu.guard(model, action="record") as guard:
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(step).backward()
            optimizer.step()
    return [finding for finding in guard.findings if finding.kind in ("activation", "ratio", "spike")]


def network(activation: nn.Module, *, outputs: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), activation, nn.Linear(16, outputs))


def fit(model: nn.Module, **options: Any) -> list[Finding]:
    return trained(model, lambda step: (model(torch.randn(16, 4)) - 1).square().mean(), **options)


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.Softmax(-1)])
def test_healthy_activations_and_updates_are_silent(activation: nn.Module) -> None:
    assert fit(network(activation), steps=70) == []


def test_a_relu_that_never_opens_is_named_with_its_module() -> None:
    model = network(nn.ReLU())
    nn.init.constant_(model[0].bias, -40.0)  # type: ignore[arg-type]
    (finding,) = fit(model)
    assert isinstance(finding, DeadActivation) and finding.path == "1" and "from the beginning" in finding.text


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Sigmoid()])
def test_an_activation_that_saturates_is_named(activation: nn.Module) -> None:
    model = network(activation)
    nn.init.normal_(model[0].weight, std=1e5)  # type: ignore[arg-type]
    findings = fit(model)
    assert [type(finding) for finding in findings] == [SaturatedActivation] and findings[0].path == "1"


def test_a_classifier_that_has_learned_may_be_certain() -> None:
    model = network(nn.ReLU())
    x = torch.randn(64, 4)
    y = (x[:, :1] > 0).float()
    x[:, 0] *= 50
    options = {"steps": 130, "rate": 0.05, "optimizer": torch.optim.Adam}
    findings = trained(
        model, lambda step: F.binary_cross_entropy(model(x).sigmoid().clamp(1e-7, 1 - 1e-7), y), **options
    )
    assert findings == []


@pytest.mark.parametrize(("rate", "is_large"), [(30.0, True), (1e-8, False)])
def test_updates_far_out_of_the_usual_range_are_named(rate: float, is_large: bool) -> None:
    model = network(nn.ReLU()).double()  # in float32, most of the small updates would be rounded away
    x = torch.randn(16, 4, dtype=torch.float64)
    options = {"rate": rate, "optimizer": torch.optim.Adam if is_large else torch.optim.SGD}
    findings = trained(model, lambda step: (model(x) - 1).square().mean(), **options)
    kinds = [finding.is_large for finding in findings if isinstance(finding, UnusualUpdates)]
    assert kinds == [is_large]


def spiking(model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], spoil: Callable[[Tensor, Tensor], None]) -> Any:
    def loss_of(step: int) -> Tensor:
        torch.manual_seed(step)
        x = torch.randn(8, 4)
        y = x.sum(1, keepdim=True)
        if step == 40:
            spoil(x, y)
        return loss(model(x), y)

    return trained(model, loss_of, steps=60)


def spoil_target(x: Tensor, y: Tensor) -> None:
    y[5] = 300.0


@pytest.mark.parametrize(
    "loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, lambda out, y: (out - y).square().mean(), F.huber_loss]
)
def test_a_spike_of_the_loss_is_named_with_its_row(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    (finding,) = spiking(nn.Linear(4, 1), loss, spoil_target)
    assert isinstance(finding, LossSpike) and finding.backward_pass == 40 and finding.batch == 8
    assert finding.rows[0] == 5 and finding.shares[0] > 0.8


def test_rows_that_are_not_known_are_said_to_be_not_known() -> None:
    def root(out: Tensor, y: Tensor) -> Tensor:
        return (out - y.pow(3)).abs().add(1).sqrt().mean()

    (finding,) = spiking(nn.Linear(4, 1), root, spoil_target)
    assert isinstance(finding, LossSpike) and finding.rows == () and "not known" in finding.text


def test_a_loss_that_only_varies_is_silent() -> None:
    model = network(nn.ReLU())
    assert trained(model, lambda step: model(torch.randn(2, 4) * 3).square().mean(), steps=150, rate=1e-3) == []
    assert (
        trained(model, lambda step: (model(torch.randn(4, 4)) * torch.randn(4, 1)).mean(), steps=150, rate=1e-3) == []
    )
    assert trained(model, lambda step: (model(torch.randn(8, 4)) - step // 50).square().mean(), steps=150) == []


# Data from NumPy.


class Rows(Dataset[Any]):
    """Divides by a deviation that is zero for one sample."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        row = np.random.RandomState(index).rand(4) if index != 3 else np.ones(4)
        row = (row - row.mean()) / row.std()  # here: Dataset
        return row.astype(np.float32)


def logarithms(rows: list[Any]) -> Tensor:
    together = np.stack(rows)
    together = np.log(together)  # here: collate
    return torch.from_numpy(together.astype(np.float32))


def standardize(rows: Any) -> Any:
    mean, deviation = rows.mean(0), rows.std(0)
    return (rows - mean) / deviation  # here: function


def from_dataset() -> Any:
    return DataLoader(Rows(), batch_size=4)


def from_collate() -> Any:
    return DataLoader([np.arange(4.0)] * 4, batch_size=2, collate_fn=logarithms)  # type: ignore[arg-type]


def from_function() -> Any:
    return [torch.as_tensor(standardize(np.ones((4, 4))), dtype=torch.float32)]


SOURCES = {"Dataset": from_dataset, "collate": from_collate, "function": from_function}


def train_on(data: Iterable[Tensor]) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    for x in data:
        model(x).square().mean().backward()


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_line_of_numpy_behind_data_is_named(name: str) -> None:
    settings, source = np.geterr(), SOURCES[name]
    with pytest.raises(insitu.NonFiniteError, match="most likely produced the") as caught, insitu.guard():
        train_on(source())
    finding = caught.value.finding
    assert isinstance(finding, NonFiniteData) and finding.site is not None
    assert finding.site.text.endswith(f"# here: {name}") and np.geterr() == settings


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_missing_values_that_are_masked_are_fine() -> None:
    model = nn.Linear(4, 1)
    with insitu.guard(model) as guard:
        for _ in range(3):
            x = torch.from_numpy(np.concatenate([standardize(np.ones((2, 4))), np.ones((2, 4))])).float()
            known = torch.isfinite(x).all(1)
            model(x[known]).square().mean().backward()
    assert guard.findings == []


def test_data_whose_line_is_not_known_is_still_named() -> None:
    model, x = nn.Linear(4, 1), torch.tensor([[1.0, 2.0, 3.0, float("nan")]])
    with pytest.warns(insitu.InsituWarning, match="already contained NaN"), insitu.guard(model):
        model(x)
