"""What a guard finds about hooks on gradients, and that it leaves the hooks as they were."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu import NonFiniteError


def spoil(grad: Tensor) -> Tensor:
    return grad / (grad - grad)


def spoil_in_place(grad: Tensor) -> None:
    grad.div_(0)


def line_of(function: Any) -> str:
    return f"test_hooks.py:{function.__code__.co_firstlineno}"


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("hook", [spoil, spoil_in_place])
def test_a_hook_on_an_activation_is_found(hook: Any, with_model: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    with pytest.raises(NonFiniteError) as caught, insitu.guard(model if with_model else None):
        hidden = model[:2](torch.ones(2, 3))
        hidden.register_hook(hook)
        model[2](hidden).sum().backward()
    head, *_ = str(caught.value).splitlines()
    assert head == f"{line_of(hook)}: a hook ({hook.__name__}) on the gradient of F.relu produced {words(caught.value)}"
    assert caught.value.finding is not None and caught.value.finding.phase == "backward"


def words(error: NonFiniteError) -> str:
    """Whether 0 / 0 was among it depends on the weights."""
    assert error.finding is not None
    return f"{'NaN' if error.finding.kind == 'nan' else 'Inf'} from finite inputs"


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize("before", [True, False])
def test_a_hook_on_a_parameter_is_found_and_left_as_it_was(before: bool, with_model: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    if before:
        model[0].weight.register_hook(spoil)
    with insitu.guard(model if with_model else None, action="record") as guard:
        if not before:
            model[0].weight.register_hook(spoil)
        model(torch.ones(2, 3)).sum().backward()
    (finding,) = guard.findings
    assert f"{line_of(spoil)}: a hook (spoil) on the gradient of 0.weight produced Inf" in finding.text
    assert list(model[0].weight._backward_hooks.values()) == [spoil]


def test_a_hook_without_python_code_is_named_by_its_type() -> None:
    x = torch.ones(2, requires_grad=True)
    with insitu.guard(action="record") as guard:
        x.register_hook(partial(torch.mul, other=float("inf")))
        x.exp().sum().backward()
    assert "a hook (partial) on the gradient of a tensor produced Inf" in guard.findings[0].text


def test_healthy_hooks_are_called_and_are_not_findings() -> None:
    x, seen = torch.zeros(2, requires_grad=True), []
    with insitu.guard(action="record") as guard:
        x.register_hook(lambda grad: seen.append(grad) or grad * 2)  # type: ignore[func-returns-value]
        handle = x.register_hook(spoil)
        handle.remove()
        x.exp().sum().backward()
        assert not guard.findings and x.grad is not None and x.grad.tolist() == [2, 2] and len(seen) == 1
        x.sqrt().sum().backward()
    assert [getattr(finding, "node", None) for finding in guard.findings] == ["SqrtBackward0"]


def test_allowed_parameters_may_have_hooks_that_produce_nan() -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].weight.register_hook(spoil)
    with insitu.guard(model, action="record", allow="0.weight") as guard:
        model(torch.ones(2, 3)).sum().backward()
    assert not guard.findings


def test_hooks_of_each_step_are_not_kept() -> None:
    model, alive = nn.Linear(3, 3), []
    with insitu.guard(model):
        for _ in range(3):
            x = torch.ones(2, 3, requires_grad=True)
            x.register_hook(partial(torch.mul, other=x.detach()))
            model(x).sum().backward()
            alive.append(weakref.ref(x))
            del x
        gc.collect()
        assert [ref() for ref in alive] == [None] * 3


def test_hooks_of_guards_that_overlap_are_put_back() -> None:
    x = torch.ones(2, requires_grad=True)
    x.register_hook(spoil)
    with insitu.guard(action="record") as outer, insitu.guard(action="record") as inner:
        x.register_hook(torch.neg)
        x.exp().sum().backward()
    assert len(outer.findings) == len(inner.findings) == 1
    assert list(x._backward_hooks.values()) == [spoil, torch.neg]  # type: ignore[union-attr]
