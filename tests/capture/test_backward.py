"""The backward pass: to which call its operators belong, the gradients, the operations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import insitu
from insitu.demo import GPT
from insitu.trace.event import Call


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc(x)
        return hidden.exp() + hidden.sin()


def origins(trace: insitu.Trace) -> dict[str, str | None]:
    """Backward operators and the functions they belong to."""
    found = {}
    for call in trace.find(kind="aten", phase="backward"):
        forward = trace[call.forward] if call.forward is not None else None
        assert forward is None or isinstance(forward, Call)
        found[call.name] = forward.name.rpartition(".")[2] if forward is not None else None
    return found


def test_backward_operators_know_their_forward_call_and_its_module() -> None:
    model = Net()
    with insitu.record(model, level="aten") as trace:
        model(torch.ones(2, 4)).sum().backward()
    found = origins(trace)
    assert found["aten.cos"] == "sin"
    assert found["aten.mm"] == "linear"
    assert found["aten.detach"] is None  # what a leaf keeps belongs to no call
    (mm,) = {call.path for call in trace.find(name="aten.mm", phase="backward")}
    assert mm == "fc"
    assert trace.find("fc", phase="backward") == trace.find("fc", kind="aten", phase="backward") != []
    assert len(trace.find("**", phase="backward")) == len(trace.find(phase="backward"))


def test_a_custom_function_does_not_take_the_nodes_of_others() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad.mul(2)

    x = torch.ones(3, requires_grad=True)
    with insitu.record(level="aten") as trace:
        y = x.sin()
        z = Double.apply(y)
        z.exp().sum().backward()
    found = origins(trace)
    assert found["aten.cos"] == "sin"
    forwards = {call.forward for call in trace.find(name="aten.mul.Tensor", phase="backward")}
    names = {trace[id].name.rpartition(".")[2] for id in forwards if id is not None}  # type: ignore[union-attr]
    assert "exp" in names and names <= {"exp", "sin"}


def test_backward_operators_know_the_forward_call_of_their_own_step() -> None:
    model = Net()
    with insitu.record(model, level="aten") as trace:
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
    for call in trace.find(phase="backward"):
        if call.forward is not None:
            forward = trace[call.forward]
            assert forward.step == call.step and forward.id < call.id
    assert {call.step for call in trace.find(phase="backward") if call.forward is not None} == {0, 1, 2}


def test_recomputation_belongs_to_the_recomputed_call() -> None:
    model = Net()
    x = torch.ones(2, 4, requires_grad=True)
    with insitu.record(level="aten") as trace:
        checkpoint(model, x, use_reentrant=False).sum().backward()
    cos = next(call for call in trace.find(name="aten.cos", phase="backward"))
    assert cos.forward is not None
    assert trace[cos.forward].name == "torch.Tensor.sin"  # type: ignore[union-attr]


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_gradients_are_values_of_the_tensors_they_belong_to(level: str) -> None:
    model, x = Net(), torch.randn(2, 4)
    with insitu.record(level=level, keep=torch.clone) as trace:
        out = model(x)
        out.retain_grad()
        (out * 3).sum().backward()
    net = trace.find("")[0]
    assert net.outputs[0].grad is not None
    assert torch.equal(torch.from_numpy(net.outputs[0].grad.kept), out.grad)
    if level != "modules":
        weight = next(facts for facts in trace.find(name="linear")[0].inputs if facts.type == "Parameter")
        assert weight.grad is not None
        assert torch.equal(torch.from_numpy(weight.grad.kept), model.fc.weight.grad)


def test_gradients_that_add_up_in_place_are_taken_when_they_are_whole() -> None:
    model, tokens, found = GPT(), torch.randint(256, (2, 8)), {}

    def keep(module: nn.Module, given: Any, out: Tensor) -> None:
        out.retain_grad()
        found["out"] = out

    hook = model.h[0].attn.register_forward_hook(keep)
    with insitu.record(keep="stats") as trace:
        model(tokens).sum().backward()
    hook.remove()
    stats = trace.find("h.0.attn")[0].outputs[0].grad.stats  # type: ignore[union-attr]
    assert stats is not None and stats.max == found["out"].grad.max().item()


def test_no_gradient_hooks_with_keep_facts_or_after_the_session() -> None:
    model = Net()
    with insitu.record(model) as trace:
        out = model(torch.ones(2, 4))
        out.sum().backward()
    assert trace.find("")[0].outputs[0].grad is None
    with insitu.record(model, keep="stats") as trace:
        out = model(torch.ones(2, 4))
    out.sum().backward()
    assert trace.find("")[0].outputs[0].grad is None


def test_tensors_with_recorded_gradients_are_saved_without_a_warning(tmp_path: Any) -> None:
    model = Net()
    with insitu.record(model, keep="stats"):
        out = model(torch.ones(2, 4))
        torch.save(out, tmp_path / "out.pt")  # warnings are errors here: a tensor with hooks would warn
    assert out._backward_hooks is None


@pytest.mark.parametrize("level", ["functions", "aten"])
def test_recording_changes_no_bit_of_outputs_and_gradients(level: str) -> None:
    def run() -> list[Tensor]:
        torch.manual_seed(0)
        model = GPT()
        out = model(torch.randint(256, (2, 8)))
        out.sum().backward()
        return [out, *(parameter.grad for parameter in model.parameters())]

    alone = run()
    with insitu.record(level=level, keep="stats"):
        seen = run()
    assert all(torch.equal(a, b) for a, b in zip(alone, seen, strict=True))


def test_keep_is_called_again_for_an_argument_that_changed_unseen() -> None:
    model = nn.Linear(2, 1, bias=False)
    with insitu.record(model, keep="stats") as trace:
        for value in (1.0, 2.0):
            with torch.no_grad():
                model.weight.fill_(value)
            model(torch.ones(1, 2))
            model(torch.ones(1, 2))
    weights = [call.inputs[1] for call in trace.find(name="linear")]
    assert [facts.stats.max for facts in weights if facts.stats] == [1.0, 1.0, 2.0, 2.0]
    assert weights[0] is weights[1] and weights[2] is weights[3] and weights[0] is not weights[2]


def flops(trace: insitu.Trace, kind: Any) -> int:
    return sum(call.flops or 0 for call in trace.find(kind=kind))


@pytest.mark.parametrize(
    "make",
    [
        lambda: (GPT(), torch.randint(256, (2, 8))),
        lambda: (nn.Conv2d(3, 4, 3, groups=1, stride=2), torch.randn(2, 3, 9, 9)),
        lambda: (nn.Conv1d(4, 4, 3, groups=2), torch.randn(4, 9)),
        lambda: (nn.ConvTranspose2d(3, 4, 3), torch.randn(2, 3, 9, 9)),
    ],
)
def test_operations_are_those_that_torch_counts(make: Any) -> None:
    model, x = make()
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    with insitu.record(level="aten") as trace:
        model(x).sum().backward()
    assert flops(trace, "aten") == counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        model(x)
    assert flops(trace, "function") == counter.get_total_flops()


def test_operations_of_the_functions_that_users_call() -> None:
    a, b, v = torch.randn(5, 2, 3), torch.randn(3, 4), torch.randn(3)
    q = torch.randn(2, 4, 6, 8)
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(3, 5, 8)
    for call in (
        lambda: a @ b,
        lambda: torch.addmm(torch.zeros(2, 4), a[0], b),
        lambda: F.linear(weight=b.T, input=a),
        lambda: torch.mm(input=a[0], mat2=b),
        lambda: torch.einsum("bij,jk->bik", a, b),
        lambda: attention(x, torch.randn(3, 7, 8), torch.randn(3, 7, 8)),
    ):
        with FlopCounterMode(display=False) as counter:
            call()
        with insitu.record(level="functions") as trace:
            call()
        assert flops(trace, "function") == counter.get_total_flops() > 0
    with insitu.record(level="functions") as trace:
        a.matmul(v), v @ v, a.sin(), F.scaled_dot_product_attention(q, q, q)  # torch does not count them on a CPU
    assert [call.flops for call in trace.calls] == [2 * 5 * 2 * 3, 2 * 3, None, 2 * (2 * 4) * 6 * 6 * (8 + 8)]
