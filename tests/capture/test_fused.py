"""Attention layers: they take torch's fused path where they do without the tool, and otherwise all is recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.capture.oracle import BareMode, bits, nothing_left, ops, troubles
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import insitu

pytestmark = pytest.mark.filterwarnings("ignore:.*nested")  # torch warns that they are a prototype
FUSED = ("aten._transformer_encoder_layer_fwd", "aten._native_multi_head_attention")


class Passing(TorchFunctionMode):
    """A mode of the user."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Marked(Tensor):
    """A tensor that overrides functions."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen += 1
        return super().__torch_function__(func, types, args, kwargs or {})


def layer(*, heads: int = 2, grad: bool = False, train: bool = False, **settings: Any) -> nn.TransformerEncoderLayer:
    torch.manual_seed(0)
    settings = {"batch_first": True, "dropout": 0.0, **settings}
    return nn.TransformerEncoderLayer(8, heads, 16, **settings).train(train).requires_grad_(grad)


def hooked() -> nn.Module:
    made = layer()
    made.linear1.register_forward_hook(lambda *given: None)
    return made


def encoder(**settings: Any) -> nn.Module:
    return nn.TransformerEncoder(layer(**settings), 2, enable_nested_tensor=True).eval()


def attention(**settings: Any) -> nn.Module:
    torch.manual_seed(0)
    return nn.MultiheadAttention(8, 2, batch_first=True, **settings).eval().requires_grad_(False)


def padded() -> dict[str, Tensor]:
    return {"src_key_padding_mask": torch.tensor([[False, False, True], [False, True, True]])}


X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))
CASES: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]] = {
    "plain": lambda: (layer(), (X,), {}),
    "batch of one": lambda: (layer(), (X[:1],), {}),
    "no batch": lambda: (layer(), (X[0],), {}),
    "gelu": lambda: (layer(activation="gelu"), (X,), {}),
    "odd activation": lambda: (layer(activation=F.silu), (X,), {}),
    "odd heads": lambda: (layer(heads=1), (X,), {}),
    "not batch first": lambda: (layer(batch_first=False), (X,), {}),
    "training": lambda: (layer(train=True), (X,), {}),
    "weights with gradients": lambda: (layer(grad=True), (X,), {}),
    "input with gradients": lambda: (layer(), (X.clone().requires_grad_(),), {}),
    "padding": lambda: (layer(), (X,), padded()),
    "both masks": lambda: (layer(), (X,), {**padded(), "src_mask": torch.zeros(3, 3, dtype=torch.bool)}),
    "a hook": lambda: (hooked(), (X,), {}),
    "no bias": lambda: (layer(bias=False), (X,), {}),
    "another eps": lambda: (layer(layer_norm_eps=1e-3), (X,), {}),
    "a subclass": lambda: (layer(), (X.as_subclass(Marked),), {}),
    "encoder": lambda: (encoder(), (X,), {}),
    "encoder with padding": lambda: (encoder(), (X,), padded()),
    "encoder, odd activation": lambda: (encoder(activation=F.silu), (X,), padded()),
    "attention": lambda: (attention(), (X, X, X), {}),
    "attention to others": lambda: (attention(), (X, X + 1, X + 1), {}),
    "attention with a bias": lambda: (attention(add_bias_kv=True), (X, X, X), {}),
}


def run(case: str) -> Any:
    module, args, kwargs = CASES[case]()
    return bits(module(*args, **kwargs))


def operators(case: str) -> list[str]:
    with BareMode() as mode:
        run(case)
    return mode.ops


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
@pytest.mark.parametrize("case", CASES)
def test_a_layer_is_fused_in_a_session_if_it_is_fused_without(case: str, level: str) -> None:
    expected, alone = run(case), operators(case)
    seen, Marked.seen = Marked.seen, 0
    run(case)
    seen, Marked.seen = Marked.seen, 0
    with nothing_left(), insitu.record(level=level) as trace:
        assert run(case) == expected
    assert (Marked.seen, troubles(trace)) == (seen, [])
    if level == "aten":
        assert ops(trace) == alone


@pytest.mark.parametrize("case", CASES)
def test_what_runs_inside_a_layer_is_recorded(case: str) -> None:
    module, args, kwargs = CASES[case]()
    with insitu.record(module) as trace:
        module(*args, **kwargs)
    names = {call.name for call in trace.find(kind="function")}
    is_fused = bool(set(FUSED) & set(operators(case)))
    inner = {"torch._transformer_encoder_layer_fwd", "torch._native_multi_head_attention"}
    assert bool(names & inner) == is_fused
    assert ("torch.nn.functional.multi_head_attention_forward" in names) != is_fused


def test_the_examples_cover_fused_and_plain_layers() -> None:
    fused = [case for case in CASES if set(FUSED) & set(operators(case))]
    assert 5 < len(fused) < len(CASES) - 5


def test_a_mode_of_the_user_keeps_layers_from_fusing_as_without_the_tool() -> None:
    module = layer()
    with Passing(), BareMode() as mode:
        module(X)
    assert not set(FUSED) & set(mode.ops)
    for modes in ((Passing, insitu.record), (insitu.record, Passing)):
        with modes[0](), modes[1](), BareMode() as other:
            module(X)
        assert not set(FUSED) & set(other.ops)


def test_fused_layers_are_recorded_in_nested_sessions_and_threads() -> None:
    module, expected = encoder(), run("encoder with padding")
    found: list[Any] = []

    def both() -> None:
        with insitu.record(module), insitu.record(level="aten") as trace:
            for _ in range(20):
                found.append(bits(module(X, **padded())))
        found.append(bool(trace.find(name=FUSED[0])))

    with nothing_left():
        threads = [threading.Thread(target=both) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found.count(True) == 3
    assert all(each == expected for each in found if each is not True)


def test_a_fused_layer_that_raises_leaves_no_mode() -> None:
    with nothing_left(), insitu.record(), pytest.raises(AssertionError):
        layer()(torch.ones(2, 2, 2, 2))
    with nothing_left(), insitu.record(), pytest.raises(KeyboardInterrupt):
        made = layer()
        made.register_forward_pre_hook(lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        made(X)


def test_a_compiled_module_in_a_fused_layer_stays_compiled() -> None:
    class Outer(nn.TransformerEncoderLayer):
        def forward(self, src: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            return inner(src) + super().forward(src, *args, **kwargs)

    graphs = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    inner = torch.compile(layer(activation=F.silu), backend=backend)
    outer = Outer(8, 2, 16, batch_first=True).eval().requires_grad_(False)
    outer(X)
    before = len(graphs)
    with insitu.record() as trace:
        outer(X)
    outer(X)
    assert len(graphs) == before > 0
    assert any(call.name == "torch._transformer_encoder_layer_fwd" for call in trace.calls)
