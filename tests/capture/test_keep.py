"""keep: statistics or the result of a function of the user for each tensor, and nothing where there are no values."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch
from tests.capture.expected_statistics import assert_right
from tests.capture.oracle import troubles
from torch import Tensor, nn

import insitu
from insitu.capture.torch_versions import release


def kept(run: Any, **options: Any) -> insitu.Trace:
    with insitu.record(keep="stats", **options) as trace:
        run()
    assert troubles(trace) == []
    return trace


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_every_new_tensor_has_statistics(level: str) -> None:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(4, 3)
    trace = kept(lambda: model(x).sum().backward(), level=level)
    result = model(x)
    (relu,) = trace.find("1", kind="module")
    assert relu.outputs[0].stats is not None
    assert_right(relu.outputs[0].stats, result)
    assert all(facts.stats is not None for call in trace.calls for facts in call.outputs if facts.producer is not None)


def test_negative_and_conjugate_views_in_a_run() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    for level in ("functions", "aten"):
        trace = kept(lambda: z.conj().imag, level=level)
        found = trace.calls[-1].outputs[0].stats
        assert found is not None and (found.min, found.max) == (-2.0, 4.0)


def test_a_change_in_place_has_statistics_of_its_own() -> None:
    for level in ("functions", "aten"):
        trace = kept(lambda: torch.ones(3).mul_(5), level=level)
        ones, times = trace.find(kind="function")
        assert ones.outputs[0].stats.max == 1.0 and times.outputs[0].stats.max == 5.0  # type: ignore[union-attr]
        assert times.inputs[0].stats.max == 1.0  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensor_without_values_has_no_statistics() -> None:
    def run() -> None:
        torch.ones(3, device="meta") + 1
        with torch._subclasses.FakeTensorMode():
            torch.ones(3) + 1
        torch.func.vmap(torch.sin)(torch.ones(2, 2))
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2

    for level in ("functions", "aten"):
        kept(run, level=level)


def test_unreadable_tensor_does_not_turn_statistics_off_for_the_others() -> None:
    def run() -> None:
        if release(torch.__version__) >= (2, 7):  # torch 2.6 cannot copy it, and insitu says so
            torch.empty(4, dtype=torch.uint4)
        if hasattr(torch, "float4_e2m1fn_x2"):  # since torch 2.8
            torch.ones(2).view(torch.float4_e2m1fn_x2)
        torch.ones(3).sin()

    for level in ("functions", "aten"):
        trace = kept(run, level=level)
        assert trace.find(name="sin", kind="function")[0].outputs[0].stats is not None


def test_statistics_of_inference_tensors_and_under_autocast() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)

    def run() -> None:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            results.append(model(x))

    results: list[Tensor] = []
    trace = kept(run, level="aten")
    (linear,) = trace.find(name="linear", kind="function")
    assert linear.outputs[0].dtype == "bf16"
    assert_right(linear.outputs[0].stats, results[0])  # type: ignore[arg-type]


# A function, what it makes of three ones, and what of the one zero that was given.
RESULTS = {
    "number": (lambda t: 1.5, 1.5, 1.5),
    "tensor of none": (lambda t: t.sum(), 3.0, 0.0),
    "text": (lambda t: str(tuple(t.shape)), "(3,)", "(1,)"),
    "list": (lambda t: [t.min(), t.max()], [1.0, 1.0], [0.0, 0.0]),
    "dict": (lambda t: {"n": t.numel(), "s": t.sum()}, {"n": 3, "s": 3.0}, {"n": 1, "s": 0.0}),
    "none": (lambda t: None, None, None),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_keep_function_of_the_user_is_called_with_each_tensor(name: str, level: str) -> None:
    function, made, given = RESULTS[name]
    model = nn.Identity()
    model.register_forward_hook(lambda *_: torch.ones(3))
    with insitu.record(model, level=level, keep=function) as trace:
        model(torch.zeros(1))
    assert troubles(trace) == []
    assert trace.calls[0].outputs[0].kept == made
    assert trace.calls[0].inputs[0].kept == given


def test_keep_function_may_return_an_array() -> None:
    for tensor in (torch.arange(3.0), torch.arange(3.0).bfloat16(), torch.arange(3)):
        with insitu.record(keep=lambda t: t) as trace:
            tensor.clone()
        found = trace.calls[0].outputs[0].kept
        assert isinstance(found, numpy.ndarray) and found.tolist() == [0, 1, 2]


def test_keep_function_sees_no_gradient_and_changes_nothing() -> None:
    seen: list[tuple[bool, bool]] = []

    def look(tensor: Tensor) -> float:
        seen.append((tensor.requires_grad, torch.is_grad_enabled()))
        return float((tensor * 2).sum())

    x = torch.ones(3, requires_grad=True)
    with insitu.record(level="aten", keep=look) as trace:
        x.sin().sum().backward()
    assert set(seen) == {(False, False)}
    assert "aten.mul.Tensor" not in [call.name for call in trace.calls if call.phase == "forward"]
    assert torch.equal(x.grad, x.detach().cos())  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_keep_function_that_raises_is_reported_once(level: str) -> None:
    calls: list[int] = []

    def refuse(tensor: Tensor) -> None:
        calls.append(1)
        raise LookupError("my own fault")

    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.ones(1, 3)
    expected = model(x)
    with (
        pytest.warns(insitu.InsituWarning, match="my own fault") as warned,
        insitu.record(level=level, keep=refuse) as trace,
    ):
        assert torch.equal(model(x), expected)
    assert len(warned) == 1 and len(troubles(trace)) == 1
    assert len(calls) == 1
    assert len(trace.find("**", kind="module")) == 3


@pytest.mark.parametrize("value", ["stat", "Meta", 3, None, ["stats"]])
def test_unknown_keep_raises_choice_error(value: Any) -> None:
    with pytest.raises(insitu.ChoiceError) as caught:
        insitu.record(keep=value)
    assert repr(value) in str(caught.value) and "'meta'" in str(caught.value) and "'stats'" in str(caught.value)
    if value == "stat":
        assert "did you mean 'stats'?" in str(caught.value)
