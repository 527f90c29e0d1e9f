"""A guard looks after whole steps: modes, optimizers, accumulation, clipping, data. Healthy steps have no finding."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import insitu
from insitu.capture.guard.method_calls import MethodCalls, MethodListener
from insitu.trace.findings import Finding, MissingGradients, OptimizerGap, StuckParameters
from insitu.trace.step_findings import (
    ActiveDropout,
    BroadcastLoss,
    ClippedWhileScaled,
    EvaluatedTraining,
    InvertedMask,
    TrainingModeEvaluation,
    TwoOptimizers,
    UndividedAccumulation,
    UnscaledPixels,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def findings(run: Callable[..., Any], *subject: nn.Module) -> list[Finding]:
    """What a guard finds while a program runs."""
    torch.manual_seed(0)
    with insitu.guard(*subject, action="record") as guard:
        run(*subject)
    return guard.findings


def net(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), *more, nn.ReLU(), nn.Linear(16, 3))


def batch(size: int = 8) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 8), torch.randint(3, (size,))


def fit(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 6) -> None:
    for _ in range(steps):
        x, labels = batch()
        optimizer.zero_grad()
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()


def noisy() -> nn.Sequential:
    return net(nn.BatchNorm1d(16), nn.Dropout(0.3))


def lines_of(function: Callable[..., Any], text: str) -> list[int]:
    """The numbers of the lines of a function that contain a text."""
    first = function.__code__.co_firstlineno
    with open(__file__, encoding="utf-8") as source:
        rows = source.read().splitlines()
    last = max(line for _, _, line in function.__code__.co_lines() if line)
    return [number for number in range(first, last + 1) if text in rows[number - 1]]


# Modes.


def test_a_model_that_is_trained_in_evaluation_mode_is_found_at_eval() -> None:
    def run(model: nn.Module) -> None:
        model.eval()
        fit(model, torch.optim.SGD(model.parameters(), 0.1))

    (finding,) = findings(run, noisy())
    assert isinstance(finding, EvaluatedTraining)
    assert finding.site is not None and [finding.site.line] == lines_of(run, "model.eval()")
    assert finding.modules == ("1 (BatchNorm1d)", "2 (Dropout)")
    assert "call train() before the training goes on" in finding.text


def test_a_model_that_nobody_switches_back_to_training_is_found() -> None:
    def run() -> None:
        model = noisy()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(6):
            fit(model, optimizer, steps=3)
            model.eval()

    (finding,) = findings(run)
    assert isinstance(finding, EvaluatedTraining) and finding.steps < finding.samples


def test_a_model_without_dropout_may_be_in_evaluation_mode() -> None:
    def run(model: nn.Module) -> None:
        fit(model.eval(), torch.optim.SGD(model.parameters(), 0.1))

    assert findings(run, net()) == []


def test_a_head_may_be_trained_on_a_model_in_evaluation_mode() -> None:
    def run(model: nn.Sequential) -> None:
        model.eval()
        fit(model, torch.optim.SGD(model[-1].parameters(), 0.1))

    model = noisy()
    model[:-1].requires_grad_(False)
    assert [type(each) for each in findings(run, model)] == []


class Unaware(nn.Module):
    """A model whose functional dropout does not know the mode, or knows it."""

    def __init__(self, *, knows: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.knows = nn.Linear(8, 16), nn.Linear(16, 3), knows

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        if self.knows:
            return self.second(F.dropout(hidden, 0.5, self.training))
        return self.second(F.dropout(hidden, 0.5))


@pytest.mark.parametrize("goes_on", [False, True])
def test_functional_dropout_is_found_in_evaluation(goes_on: bool) -> None:
    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        fit(model, optimizer)
        model.eval()
        with torch.no_grad():
            model(batch()[0])
        if goes_on:
            model.train()
            fit(model, optimizer)

    (finding,) = findings(run, Unaware())
    assert isinstance(finding, ActiveDropout)
    assert finding.site is not None and "F.dropout(hidden, 0.5))" in finding.site.text
    assert finding.switch is not None and [finding.switch.line] == lines_of(run, "model.eval()")
    assert findings(run, Unaware(knows=True)) == []


def test_an_evaluation_in_training_mode_is_found() -> None:
    def run(model: nn.Module, *, has_metric: bool = True) -> None:
        fit(model, torch.optim.SGD(model.parameters(), 0.1))
        x, labels = batch()
        with torch.no_grad():
            scores = model(x)
            if has_metric:
                (scores.argmax(-1) == labels).float().mean()

    (finding,) = findings(run, noisy())
    assert isinstance(finding, TrainingModeEvaluation)
    assert finding.site is not None and [finding.site.line] == lines_of(run, "scores = model(x)")
    assert findings(lambda model: run(model, has_metric=False), noisy()) == []  # samples of a generator
    assert findings(run, net()) == []


# Optimizers.


def test_parameters_that_two_optimizers_move_in_turns_are_found() -> None:
    def run() -> None:
        model = net()
        one = torch.optim.SGD(model[0].parameters(), 0.1)
        both = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(4):
            fit(model, one, steps=1)
            fit(model, both, steps=1)

    (finding,) = findings(run)
    assert isinstance(finding, TwoOptimizers) and finding.paths == ("0.weight", "0.bias")
    assert finding.site is not None and [finding.site.line] == lines_of(run, "both =")


def test_two_optimizers_one_after_the_other_are_healthy() -> None:
    def run(model: nn.Module) -> None:
        fit(model, torch.optim.Adam(model.parameters()))
        fit(model, torch.optim.SGD(model.parameters(), 0.1))

    assert findings(run, net()) == []


@pytest.mark.parametrize("has_model", [False, True])
def test_weights_that_are_assigned_after_the_optimizer_are_found_at_the_assignment(has_model: bool) -> None:
    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model.load_state_dict({key: each.clone() for key, each in model.state_dict().items()}, assign=True)
        for _ in range(4):
            x, labels = batch()
            model.zero_grad()
            F.cross_entropy(model(x), labels).backward()
            optimizer.step()

    model = net()
    (finding,) = findings(run, model) if has_model else findings(lambda: run(model))
    assert isinstance(finding, OptimizerGap) and finding.is_late
    assert finding.site is not None and [finding.site.line] == lines_of(run, "load_state_dict")


def test_parameters_in_no_optimizer_are_found_in_a_model_that_is_gone() -> None:
    def run() -> None:
        model = net()
        optimizer = torch.optim.SGD(model[0].parameters(), 0.1)
        fit(model, optimizer)

    (finding,) = findings(run)
    assert isinstance(finding, OptimizerGap) and finding.paths == ("2.weight", "2.bias")
    assert f"test_guard_steps.py:{lines_of(run, 'optimizer =')[0]}: SGD with lr=0.1" in finding.text


def test_a_learning_rate_of_zero_names_its_schedule() -> None:
    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step // 100)
        fit(model, optimizer)

    (finding,) = findings(run, net())
    assert isinstance(finding, StuckParameters)
    assert f"test_guard_steps.py:{lines_of(run, 'LambdaLR')[0]}: torch.optim" in finding.text


# Accumulation.


def accumulate(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    for number in range(1, 17):
        x, labels = batch(4)
        loss(model(x), labels).backward()
        if number % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()


def test_gradients_that_nobody_divides_are_found_at_the_backward_pass() -> None:
    def run(model: nn.Module) -> None:
        accumulate(model, torch.optim.SGD(model.parameters(), 0.01), F.cross_entropy)

    (finding,) = findings(run, net())
    assert [type(each) for each in findings(lambda: run(net()))] == [UndividedAccumulation]
    assert isinstance(finding, UndividedAccumulation) and finding.passes == 4
    assert finding.site is not None and [finding.site.line] == lines_of(accumulate, "backward()")


def test_parts_of_a_batch_are_found_in_a_loop_of_their_own() -> None:
    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(4):
            x, labels = batch(16)
            optimizer.zero_grad()
            for part, expected in zip(x.chunk(4), labels.chunk(4), strict=True):
                F.cross_entropy(model(part), expected).backward()
            optimizer.step()

    assert [type(each) for each in findings(run, net())] == [UndividedAccumulation]


@pytest.mark.parametrize(
    "loss",
    [
        lambda scores, labels: F.cross_entropy(scores, labels) / 4,
        lambda scores, labels: F.cross_entropy(scores, labels) * 0.25,
        lambda scores, labels: F.cross_entropy(scores, labels, reduction="sum"),
        lambda scores, labels: F.cross_entropy(scores, labels, reduction="none").sum() / 16,
    ],
)
def test_losses_that_are_divided_or_summed_are_healthy(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    def run(model: nn.Module) -> None:
        accumulate(model, torch.optim.SGD(model.parameters(), 0.001), loss)

    assert findings(run, net()) == []


def test_the_size_of_gradients_does_not_matter_to_adam() -> None:
    assert findings(lambda model: accumulate(model, torch.optim.Adam(model.parameters()), F.cross_entropy), net()) == []


def test_losses_of_several_tasks_add_up() -> None:
    def run() -> None:
        body, heads = nn.Linear(8, 16), nn.ModuleList(nn.Linear(16, 3) for _ in range(3))
        optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], 0.01)
        for _ in range(4):
            optimizer.zero_grad()
            for head in heads:
                x, labels = batch()
                F.cross_entropy(head(body(x).relu()), labels).backward()
            optimizer.step()

    assert findings(run) == []


def test_gradients_that_are_divided_or_clipped_afterwards_are_healthy() -> None:
    def run(model: nn.Module, *, is_clipped: bool) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for number in range(1, 17):
            x, labels = batch(4)
            F.cross_entropy(model(x), labels).backward()
            if number % 4 == 0:
                if is_clipped:
                    clip_grad_norm_(model.parameters(), 1.0)
                else:
                    for parameter in model.parameters():
                        parameter.grad /= 4
                optimizer.step()
                optimizer.zero_grad()

    assert findings(lambda model: run(model, is_clipped=False), net()) == []
    assert findings(lambda model: run(model, is_clipped=True), net()) == []


# Clipping.


def scaled(clip: Callable[[nn.Module, Any, Any], object]) -> list[Finding]:
    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(4):
            x, labels = batch()
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(x), labels)).backward()
            clip(model, scaler, optimizer)
            scaler.step(optimizer)
            scaler.update()

    return findings(run, net())


def clip_by_hand(model: nn.Module) -> None:
    norm = torch.stack([each.grad.norm() for each in model.parameters() if each.grad is not None]).norm()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_((1.0 / norm).clamp(max=1.0))


@pytest.mark.parametrize(
    "clip",
    [
        lambda model, scaler, optimizer: clip_grad_norm_(model.parameters(), 1.0),
        lambda model, scaler, optimizer: clip_grad_value_(model.parameters(), 0.5),
        lambda model, scaler, optimizer: clip_by_hand(model),
    ],
)
def test_clipping_before_unscaling_is_found(clip: Callable[[nn.Module, Any, Any], object]) -> None:
    (finding,) = scaled(clip)
    assert isinstance(finding, ClippedWhileScaled) and finding.site is not None
    assert "scaler.unscale_(optimizer)" in finding.text


@pytest.mark.parametrize(
    "clip",
    [
        lambda model, scaler, optimizer: (scaler.unscale_(optimizer), clip_grad_norm_(model.parameters(), 1.0)),
        lambda model, scaler, optimizer: clip_grad_norm_(model.parameters(), 10.0 * scaler.get_scale()),
        lambda model, scaler, optimizer: None,
    ],
)
def test_clipping_after_unscaling_is_healthy(clip: Callable[[nn.Module, Any, Any], object]) -> None:
    assert scaled(clip) == []


# Data.


def images(convert: Callable[[Any], Tensor], *layers: nn.Module) -> list[Finding]:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 1, 6, 6), dtype=np.uint8)

    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 1e-4)
        for _ in range(4):
            x = convert(pixels)
            optimizer.zero_grad()
            F.cross_entropy(model(x), torch.randint(3, (16,))).backward()
            optimizer.step()

    model = nn.Sequential(nn.Conv2d(1, 4, 3), *layers, nn.Tanh(), nn.Flatten(), nn.Linear(64, 3))
    return [each for each in findings(run, model) if isinstance(each, UnscaledPixels)]


def test_bytes_that_nobody_scales_are_found_where_they_become_floats() -> None:
    def convert(pixels: Any) -> Tensor:
        return torch.from_numpy(pixels).float()

    (finding,) = images(convert)
    assert finding.site is not None and [finding.site.line] == lines_of(convert, "float()")
    (finding,) = images(lambda pixels: torch.tensor(pixels.astype(np.float32)))
    assert "whole numbers from 0 to 255" in finding.text


def test_bytes_that_are_scaled_or_normalized_are_healthy() -> None:
    assert images(lambda pixels: torch.from_numpy(pixels).float() / 255) == []
    assert images(lambda pixels: torch.from_numpy(pixels).float(), nn.BatchNorm2d(4)) == []
    assert images(lambda pixels: torch.from_numpy(pixels % 2).float()) == []


def regression(loss: Callable[[Tensor, Tensor], Tensor]) -> list[Finding]:
    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(4):
            x = torch.randn(8, 8)
            optimizer.zero_grad()
            loss(model(x), x.sum(-1)).backward()
            optimizer.step()

    return findings(run, nn.Linear(8, 1))


def test_a_loss_over_each_pair_of_prediction_and_target_is_found() -> None:
    (finding,) = regression(lambda predicted, target: (predicted - target).square().mean())
    assert isinstance(finding, BroadcastLoss)
    assert "combines [8, 1] and [8] into [8, 8]" in finding.text
    assert regression(lambda predicted, target: (predicted[:, 0] - target).square().mean()) == []


def test_pairs_of_predictions_are_healthy() -> None:
    def ranked(predicted: Tensor, target: Tensor) -> Tensor:
        order = (target[:, None] - target).sign()
        return F.softplus(-(predicted - predicted[:, 0]) * order).mean()

    assert regression(ranked) == []


class Words(nn.Module):
    """Embeds words and takes those that a mask keeps."""

    def __init__(self, pool: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.embed, self.head, self.pool = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 3), pool

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.pool(self.embed(words), words))


def masked(pool: Callable[[Tensor, Tensor], Tensor]) -> list[Finding]:
    def run(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(4):
            words = torch.randint(1, 9, (8, 5))
            words[:, 3:] = 0
            optimizer.zero_grad()
            F.cross_entropy(model(words), torch.randint(3, (8,))).backward()
            optimizer.step()

    return [each for each in findings(run, Words(pool)) if isinstance(each, InvertedMask)]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (
            lambda x, words: (x * (words != 0).float()[..., None]).sum(1),
            lambda x, words: (x * (words == 0).float()[..., None]).sum(1),
        ),
        (
            lambda x, words: x.masked_fill((words == 0).unsqueeze(-1), -9.0).amax(1),
            lambda x, words: x.masked_fill((words != 0).unsqueeze(-1), -9.0).amax(1),
        ),
        (
            lambda x, words: (x * (1 - (words == 0).long())[..., None]).sum(1),
            lambda x, words: (x * (~(words != 0))[..., None]).sum(1),
        ),
    ],
)
def test_a_mask_that_keeps_the_padding_is_found(right: Any, wrong: Any) -> None:
    (finding,) = masked(wrong)
    assert "keeps the padding (0)" in finding.text and finding.site is not None
    assert masked(right) == []


# Cuts, and what a guard leaves behind.


@pytest.mark.parametrize(
    ("leave", "name"),
    [
        (lambda hidden: torch.from_numpy(np.tanh(hidden.detach().numpy())), ".detach"),
        (lambda hidden: torch.tensor([[each.item() for each in row] for row in hidden]), ".item"),
        (lambda hidden: torch.tensor(hidden.tolist()), ".tolist"),
        (lambda hidden: hidden.data, ".data"),
    ],
)
def test_values_that_leave_torch_and_come_back_cut_the_graph(leave: Callable[[Tensor], Tensor], name: str) -> None:
    class Leaving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(leave(self.first(x)))

    def run(model: nn.Module) -> None:
        fit(model, torch.optim.SGD(model.parameters(), 0.1))

    (finding,) = findings(run, Leaving())
    assert isinstance(finding, MissingGradients)
    assert f"{name} takes a tensor that requires a gradient" in finding.text


def test_the_methods_that_a_guard_hears_are_those_of_torch_again() -> None:
    owners = [(nn.Module, "train"), (nn.Module, "register_parameter"), (torch.optim.Optimizer, "__init__")]
    before = [vars(owner)[name] for owner, name in owners]
    with insitu.guard():
        assert all(vars(owner)[name] is not old for (owner, name), old in zip(owners, before, strict=True))
        with insitu.guard():
            copy.deepcopy(net()).eval()
    assert [vars(owner)[name] for owner, name in owners] == before


def test_a_method_that_somebody_else_replaces_stays_replaced() -> None:
    class Owner:
        def act(self) -> int:
            return 1

    heard: list[object] = []
    with ExitStack() as undo:
        MethodCalls(Owner, "act").listen(MethodListener(lambda *call: heard.append(call), pytest.fail), undo)
        assert Owner().act() == 1 and len(heard) == 1
        Owner.act = lambda self: 2  # type: ignore[method-assign]
    assert Owner().act() == 2


def test_an_error_of_a_listener_never_reaches_the_program() -> None:
    class Owner:
        def act(self) -> int:
            return 1

    def fail(*call: object) -> None:
        raise RuntimeError("own error")

    troubles: list[Exception] = []
    with ExitStack() as undo:
        MethodCalls(Owner, "act").listen(MethodListener(fail, lambda what, error: troubles.append(error)), undo)
        assert Owner().act() == 1
    assert [str(error) for error in troubles] == ["own error"]
