"""Gradients of runs whose values agree: the call that passes another one back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.trace.comparing import Program, compared, given
from torch import Tensor, nn

import insitu
from insitu.trace.event import TensorFacts
from insitu.verbs.compare import compare


def program(*gradients: float | None, steps: int = 1) -> Program:
    """`exp(x) + abs(exp(x))`, then the sum of it, with the gradient of what each of the four calls makes."""
    run = Program()
    for step in range(steps):
        x = run.made("exp", given(0.0), value=1.0, step=step)
        h = run.made("abs", x, value=2.0, step=step)
        y = run.made("add", x, h, value=3.0, step=step)
        made = (x, h, y, run.made("sum", y, value=4.0, step=step))
        for facts, gradient in zip(made, gradients, strict=True):
            facts.grad = _gradient(gradient)
    return run


def _gradient(value: float | None) -> TensorFacts | None:
    return None if value is None else given(value)


def test_the_call_whose_output_has_the_same_gradient() -> None:
    a, b = program(2.0, 1.0, 1.0, 1.0, steps=2), program(1.5, 0.5, 1.0, 1.0, steps=2)
    diff = compared(a, b)
    assert diff.first is not None and not diff.same
    assert (diff.first.kind, diff.first.a) == ("gradient", a.events[2])  # where the first step has it, not the last
    assert diff.first.why == "its output's gradient agrees, that of its input differs"
    assert (diff.first.delta, diff.first.measure, diff.first.certainty) == (0.5, "gradient Δ mean", "statistics")
    assert [row.status for row in diff.differences][:4] == ["follows", "follows", "differs", "same"]
    assert "the gradients of 4 more calls differ because of it" in str(diff)


def test_a_tensor_that_several_calls_use() -> None:
    first = compared(program(2.0, 1.0, 1.0, 1.0), program(1.5, 1.0, 1.0, 1.0)).first
    assert first is not None and first.why.endswith("; so may 1 other call that uses it")


def test_nothing_that_was_recorded_uses_it() -> None:
    a = program(2.0, 1.0, 1.0, 1.0)
    first = compared(a, program(4.0, 2.0, 2.0, 2.0)).first
    assert first is not None and first.a is a.events[3] and "no call in both runs uses that" in first.why


@pytest.mark.parametrize("gradients", [(2.0, 1.0, 1.0, 1.0), (None, None, None, None)])
def test_gradients_that_agree_or_are_not_known(gradients: tuple[float | None, ...]) -> None:
    assert compared(program(2.0, 1.0, 1.0, 1.0), program(*gradients)).same


def test_values_come_before_gradients() -> None:
    a, b = program(2.0, 1.0, 1.0, 1.0), program(1.5, 0.5, 1.0, 1.0)
    for run, value in ((a, 5.0), (b, 6.0)):
        run.made("rand", value=value)
    assert [cause.kind for cause in compared(a, b).causes] == ["random"]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def recorded(factor: float) -> insitu.Trace:
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 4), torch.randn(4, 4)
    with insitu.record(level="functions", keep="stats") as trace:
        hidden = layer(x)
        (hidden + Scaled.apply(hidden.relu(), factor)).sum().backward()  # type: ignore[no-untyped-call]
    found: insitu.Trace = trace
    return found


def test_a_function_with_another_backward() -> None:
    diff = compare(recorded(1.0), recorded(0.5))
    assert diff.first is not None and diff.first.kind == "gradient" and not diff.same
    assert diff.first.a is not None and diff.first.a.name == "torch.Tensor.clone"
    assert [row.status for row in diff.differences][:3] == ["follows", "follows", "differs"]
    assert compare(recorded(0.5), recorded(0.5)).same


def test_only_a_parameter_has_another_gradient() -> None:
    traces = []
    for factor in (1.0, 2.0):
        torch.manual_seed(0)
        layer = nn.Linear(2, 2)
        layer.weight.register_hook(lambda gradient, factor=factor: gradient * factor)  # type: ignore[no-untyped-call]
        with insitu.record(level="functions", keep="stats") as trace:
            layer(torch.ones(3, 2)).relu().sum().backward()
        traces.append(trace)
    first = compare(*traces).first
    assert (
        first is not None
        and first.a is not None
        and (first.kind, first.a.name.split(".")[-1]) == ("gradient", "linear")
    )


def reading(*, masked: float, gradients: tuple[float, float]) -> Program:
    """A forward pass, of which nothing is known backward, and what an optimizer then reads and does."""
    run = Program()
    weights = (run.made("ones", value=1.0), run.made("zeros", value=0.5))
    run.made("dropout", weights[0], masked / 10, value=masked)
    for weight, value in zip(weights, gradients, strict=True):
        gradient = run.made("Tensor.grad", weight, value=value)
        run.made("mul", gradient, value=value * 2)
    return run


def test_who_reads_a_gradient_did_not_make_it() -> None:
    diff = compared(reading(masked=1.0, gradients=(1.0, 2.0)), reading(masked=2.0, gradients=(1.5, 2.5)))
    statuses = [row.status for row in diff.differences]
    assert statuses == ["same", "same", "argument", "follows", "follows", "follows", "follows"]


def test_a_gradient_that_differs_where_nothing_did_before() -> None:
    diff = compared(reading(masked=1.0, gradients=(1.0, 2.0)), reading(masked=1.0, gradients=(1.5, 2.5)))
    assert diff.first is not None and diff.first.why == "the tensor that it reads differs"
    assert [row.status for row in diff.differences][3:] == ["differs", "follows", "follows", "follows"]
