"""A guard follows what is wrong with a step to the line that made it so: copies, schedules, shapes, absurd numbers."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LRScheduler,
    OneCycleLR,
    PolynomialLR,
    StepLR,
)
from torch.utils.data import DataLoader, Dataset, TensorDataset

import insitu
from insitu.trace.findings import (
    Finding,
    MissingGradients,
    NonFiniteData,
    OptimizerGap,
    OutlierData,
    SpentSchedule,
    StuckParameters,
)
from insitu.trace.step_findings import BroadcastLoss, EvaluatedTraining

pytestmark = pytest.mark.usefixtures("one_thread")
Array = NDArray[np.float64]


def findings(run: Callable[..., Any], *subject: nn.Module) -> list[Finding]:
    """What a guard finds while a program runs."""
    torch.manual_seed(0)
    with insitu.guard(*subject, action="record") as guard:
        run(*subject)
    return guard.findings


def line_of(text: str) -> str:
    """The place of the only line of this file that ends with a comment."""
    with open(__file__, encoding="utf-8") as source:
        (number,) = [number for number, row in enumerate(source, 1) if row.rstrip().endswith(f"# {text}")]
    return f"test_guard_sources.py:{number}"


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))


def fit(model: nn.Module, optimizer: Optimizer, steps: int = 8, after: Callable[[], None] = lambda: None) -> None:
    x, y = torch.randn(16, 5), torch.randn(16, 1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        after()


# Parts in evaluation mode.


class Tuned(nn.Module):
    """A head on a backbone."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = backbone, nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def backbone() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.2))


def test_a_part_that_is_left_in_evaluation_mode_is_found_at_eval() -> None:
    def run() -> None:
        pretrained = backbone()
        pretrained.eval()  # backbone eval
        model = Tuned(pretrained)
        fit(model, SGD(model.parameters(), 0.1))

    (finding,) = findings(run)
    assert isinstance(finding, EvaluatedTraining) and finding.path.endswith("backbone")
    assert finding.text.startswith(line_of("backbone eval"))


def test_a_part_is_in_evaluation_mode_on_purpose() -> None:
    def switched_after_train() -> None:
        model = Tuned(backbone())
        model.train()
        model.backbone.eval()
        fit(model, SGD(model.parameters(), 0.1))

    def one_by_one() -> None:
        model = Tuned(backbone())
        for part in model.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.eval()
        fit(model, SGD(model.parameters(), 0.1))

    def not_trained() -> None:
        model = Tuned(backbone())
        model.backbone.requires_grad_(False).eval()
        fit(model, SGD(model.head.parameters(), 0.1))

    for run in (switched_after_train, one_by_one, not_trained):
        assert [each.text for each in findings(run)] == [], run.__name__


def test_a_normalization_that_rests_in_evaluation_mode_needs_no_optimizer() -> None:
    def run() -> None:
        model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
        model.eval()
        fit(model, SGD(model[1:].parameters(), 0.1))

    assert findings(run) == []


# Copies.


def trained_copy(make: Callable[[nn.Module], nn.Module]) -> Callable[..., None]:
    def run(*subject: nn.Module) -> None:
        model = subject[0] if subject else net()
        optimizer = SGD(model.parameters(), 0.1)
        fit(model, optimizer)
        fit(make(model), optimizer, steps=12)

    return run


def loaded(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)  # load


def deep_copy(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model)  # deepcopy


@pytest.mark.parametrize("has_model", [True, False])
@pytest.mark.parametrize(("make", "place"), [(deep_copy, "deepcopy"), (loaded, "load")])
def test_a_copy_that_no_optimizer_has_is_found_where_it_was_made(
    make: Callable[[nn.Module], nn.Module], place: str, has_model: bool
) -> None:
    (finding,) = findings(trained_copy(make), *[net()] * has_model)
    assert isinstance(finding, OptimizerGap) and finding.is_late and len(finding.paths) == 4
    assert finding.text.startswith(line_of(place))


def test_a_model_that_is_made_again_is_found_with_the_lines_that_led_there() -> None:
    def run() -> None:
        model = net()
        optimizer = SGD(model.parameters(), 0.1)
        state = model.state_dict()
        model = net()  # again
        model.load_state_dict(state)
        fit(model, optimizer)

    missing, gap = findings(run)
    assert isinstance(missing, MissingGradients) and missing.call is None  # `state_dict()` does not cut the graph
    assert isinstance(gap, OptimizerGap) and line_of("again") in gap.text


def test_copies_that_are_not_trained_are_fine() -> None:
    def best() -> None:
        model = net()
        optimizer = SGD(model.parameters(), 0.1)
        for _ in range(4):
            fit(model, optimizer, steps=3)
            best = copy.deepcopy(model).eval()
            with torch.no_grad():
                best(torch.randn(4, 5))

    def new_optimizer() -> None:
        model = net()
        fit(model, SGD(model.parameters(), 0.1))
        model = copy.deepcopy(model)
        fit(model, SGD(model.parameters(), 0.1))

    def critic() -> None:
        model, judge = net(), net()
        optimizer, judge = SGD(model.parameters(), 0.1), copy.deepcopy(judge)
        for _ in range(8):
            optimizer.zero_grad()
            judge(model(torch.randn(4, 5)).expand(-1, 5)).square().mean().backward()
            optimizer.step()

    for run in (best, new_optimizer, critic):
        assert [each.text for each in findings(run)] == [], run.__name__


# Schedules.


def scheduled(make: Callable[[Optimizer], LRScheduler], steps: int = 50) -> Callable[[], None]:
    def run() -> None:
        model = net()
        optimizer = SGD(model.parameters(), 0.05)
        fit(model, optimizer, steps, make(optimizer).step)

    return run


def by_closure(optimizer: Optimizer) -> LRScheduler:
    total = 5  # closure

    def factor(step: int) -> float:
        return max(0.0, (total - step) / total)

    return LambdaLR(optimizer, factor)


def polynomial(optimizer: Optimizer, length: int) -> LRScheduler:
    return PolynomialLR(optimizer, total_iters=length)


def by_argument(optimizer: Optimizer) -> LRScheduler:
    epochs = 5  # argument
    return polynomial(optimizer, epochs)


@pytest.mark.parametrize(("make", "place"), [(by_closure, "closure"), (by_argument, "argument")])
def test_a_schedule_that_ends_too_early_is_found_where_its_length_is(
    make: Callable[[Optimizer], LRScheduler], place: str
) -> None:
    (finding,) = findings(scheduled(make))
    assert isinstance(finding, SpentSchedule) and (finding.useful_steps, finding.steps) == (5, 50)
    assert f"from  {line_of(place)}" in finding.text
    assert "the learning rate falls to 0 after 5 of 50 steps of SGD" in finding.text


def test_a_rate_that_decays_with_each_batch_is_found_at_its_schedule() -> None:
    finding = findings(scheduled(lambda optimizer: ExponentialLR(optimizer, 0.3)))[0]  # decay
    assert isinstance(finding, SpentSchedule) and finding.length is None and finding.text.startswith(line_of("decay"))


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: PolynomialLR(optimizer, total_iters=50),
        lambda optimizer: CosineAnnealingLR(optimizer, 50),
        lambda optimizer: OneCycleLR(optimizer, 0.1, total_steps=51),
        lambda optimizer: StepLR(optimizer, 10),
        lambda optimizer: CosineAnnealingWarmRestarts(optimizer, 10),
        lambda optimizer: LambdaLR(optimizer, lambda step: min(1.0, step / 10)),
    ],
    ids=["polynomial", "cosine", "one cycle", "steps", "restarts", "warm-up from 0"],
)
def test_schedules_that_last_are_fine(make: Callable[[Optimizer], LRScheduler]) -> None:
    assert findings(scheduled(make)) == []


def test_a_group_with_a_learning_rate_of_zero_is_found_and_a_few_slow_weights_are_fine() -> None:
    def still(model: nn.Sequential) -> None:
        groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}]
        fit(model, SGD(groups, 0.1))

    (finding,) = findings(still, net())
    assert isinstance(finding, StuckParameters) and finding.paths == ("0.weight", "0.bias") and not finding.rate

    def slow(model: nn.Sequential) -> None:
        nn.init.constant_(model[0].weight, 1e3)  # updates are rounded away
        groups = [{"params": model[0].parameters(), "lr": 1e-7}, {"params": model[2].parameters()}]
        fit(model, SGD(groups, 0.1))

    deep = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1))
    assert not any(isinstance(each, StuckParameters) for each in findings(slow, deep))


# Shapes.


def collate(rows: list[tuple[Tensor, float]]) -> tuple[Tensor, Tensor]:
    targets = torch.tensor([target for _, target in rows])  # collate
    return torch.stack([row for row, _ in rows]), targets


def test_a_broadcast_loss_names_the_lines_that_made_its_shapes() -> None:
    def run() -> None:
        model, rows = net(), [(torch.randn(5), float(number)) for number in range(16)]
        optimizer = SGD(model.parameters(), 1e-3)
        for x, y in DataLoader(rows, 4, collate_fn=collate):  # type: ignore[arg-type]
            optimizer.zero_grad()
            (model(x) - y).abs().mean().backward()  # pairs
            optimizer.step()

    (finding,) = findings(run)
    assert isinstance(finding, BroadcastLoss) and finding.text.startswith(line_of("pairs"))
    assert f"from  {line_of('collate')}: torch.tensor made [4]" in finding.text
    assert "(model(x).squeeze(-1) - y).abs()" in finding.text.splitlines()[-2]


# Data.


class Scaler:
    """Standardizes the columns of an array."""

    def fit(self, x: Array) -> Scaler:
        self.mean, self.deviation = x.mean(0), x.std(0)
        return self

    def apply(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return (x - self.mean) / self.deviation  # division


class Filled(Dataset[Any]):
    """Rows in which a number stands for what is missing."""

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = np.nan_to_num(x, nan=-9999.0), y  # fill

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.x[at]).float(), torch.tensor(self.y[at]).float()


def rows(bad: int | None = None) -> tuple[Array, Array]:
    x = np.random.default_rng(0).normal(size=(160, 5))
    y = x.sum(1, keepdims=True)
    if bad is not None:
        x[bad, 1] = np.nan
    return x, y


def tensors(x: Array, y: Array) -> Iterable[Any]:
    return DataLoader(TensorDataset(torch.from_numpy(x).float(), torch.from_numpy(y).float()), 8)  # tensors


def standardized() -> Iterable[Any]:
    x, y = rows()
    x[:, 2] = 1.5
    return tensors(Scaler().fit(x).apply(x), y)


def filled(bad: int) -> Callable[[], Iterable[Any]]:
    return lambda: DataLoader(Filled(*rows(bad)), 8)


def far_target() -> Iterable[Any]:
    x, y = rows()
    y[50] = 1e6  # target
    return tensors(x, y)


def from_a_file() -> Iterable[Any]:
    x, y = rows()
    x[50, 0] = float("-9" + "999")
    return tensors(x, y)


def long_tails() -> Iterable[Any]:
    return tensors(np.random.default_rng(0).standard_cauchy((160, 5)), rows()[1])


def training(make: Callable[[], Iterable[Any]]) -> Callable[[], None]:
    def run() -> None:
        model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for x, y in make():
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


def test_nan_behind_the_method_of_an_object_is_found_in_the_method() -> None:
    finding = findings(training(standardized))[0]
    assert isinstance(finding, NonFiniteData) and finding.text.startswith(line_of("division"))


@pytest.mark.parametrize(
    ("make", "place"),
    [(filled(90), "fill"), (filled(3), "fill"), (far_target, "target"), (from_a_file, "tensors")],
    ids=["in a batch", "in the first batch", "in a target", "from a file"],
)
def test_an_absurd_number_in_data_is_found_where_it_was_written(make: Callable[[], Iterable[Any]], place: str) -> None:
    (finding,) = [each for each in findings(training(make)) if isinstance(each, OutlierData)]
    assert finding.text.startswith(line_of(place)), finding.text
    assert abs(finding.loss) > 20 * finding.usual


@pytest.mark.parametrize("make", [long_tails, lambda: tensors(*rows())], ids=["long tails", "normal"])
def test_data_without_absurd_numbers_is_fine(make: Callable[[], Iterable[Any]]) -> None:
    assert not any(isinstance(each, OutlierData) for each in findings(training(make)))


# Where the graph is cut.


class Chosen(nn.Module):
    """Chooses rows by scores, of which only the indices are used."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.body = nn.Linear(5, 1), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        empty = self.scores(x).new_zeros(3, 5)
        _, indices = self.scores(x).topk(3, 0)  # topk
        chosen = x[indices[:, 0]] + empty
        result = torch.empty(3, 1)
        result[:] = self.body(chosen)
        return result.masked_fill(result.isnan(), 0.0)


def test_the_graph_is_cut_where_a_result_has_no_gradient_and_not_by_shapes() -> None:
    model = Chosen()
    (finding,) = findings(lambda model: fit_alone(model), model)
    assert isinstance(finding, MissingGradients) and finding.paths == ("scores.weight", "scores.bias")
    assert line_of("topk") in finding.text


def fit_alone(model: nn.Module) -> None:
    optimizer = SGD(model.parameters(), 0.1)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 5)).square().mean().backward()
        optimizer.step()
