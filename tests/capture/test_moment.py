"""Facts and kept values are those of the moment of the call, whoever changed the tensor, and however."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.capture.oracle import troubles
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, TensorDataset

import insitu
from insitu.capture.tensor_swaps import swaps as tensor_swaps
from insitu.trace.event import Call, TensorFacts

pytestmark = pytest.mark.usefixtures("quick_collections")

LEVELS = ["functions", "aten"]


def in_thread(run: Callable[[], object]) -> None:
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)


def input_of(trace: insitu.Trace, name: str, index: int = -1) -> TensorFacts:
    """The first tensor that went into a function: of several calls, the last one."""
    assert troubles(trace) == []
    return trace.find(name=name, kind="function")[index].inputs[0]


def maximum(facts: TensorFacts) -> float | None:
    assert facts.stats is not None
    return facts.stats.max


def producer_name(trace: insitu.Trace, facts: TensorFacts) -> str | None:
    producer = trace.producer(facts)
    return producer.name.rpartition(".")[2] if producer is not None else None


def test_batches_of_worker_processes_have_their_shapes() -> None:
    batches = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4, num_workers=1)
    layer = nn.Linear(3, 2)
    with insitu.record() as trace:
        for (x,) in batches:
            layer(x)
    assert [call.inputs[0].shape for call in trace.find(kind="module")] == [(4, 3), (4, 3)]
    (linear, _) = trace.find(name="linear")
    assert linear.inputs[0].shape == (4, 3) and linear.flops == 2 * 4 * 3 * 2


def test_explain_tells_the_shape_of_a_loaded_tensor(tmp_path: Path) -> None:
    torch.save(torch.randn(4, 3), tmp_path / "x.pt")
    layer = nn.Linear(4, 2)
    with pytest.raises(RuntimeError) as caught, insitu.record():
        x = torch.load(tmp_path / "x.pt")
        layer(x)
    assert "the last dimension of input is 3, the layer takes 4" in str(insitu.explain(caught.value))


def test_explain_does_not_read_a_tensor_that_has_changed_since() -> None:
    table = nn.Embedding(4, 2)
    indices = torch.tensor([1, 9])
    with insitu.record(), pytest.raises(IndexError) as caught:
        table(indices)
    indices.numpy()[:] = 0  # where torch does not count it
    text = str(insitu.explain(caught.value))
    assert "4 rows" in text and "holds" not in text


CHANGES: dict[str, tuple[Callable[[Tensor], object], dict[str, Any]]] = {
    "set_": (lambda x: x.set_(torch.ones(4, 5)), {"shape": (4, 5)}),
    "data": (lambda x: setattr(x, "data", torch.ones(4, 5).t()), {"shape": (5, 4), "strides": (1, 5)}),
    "dtype": (lambda x: setattr(x, "data", x.data.half()), {"dtype": "f16"}),
    "device": (lambda x: torch.utils.swap_tensors(x, torch.ones(2, 3, device="meta")), {"device": "meta"}),
    "resize_": (lambda x: x.resize_(1, 7), {"shape": (1, 7)}),
    "t_": (lambda x: x.t_(), {"shape": (3, 2), "strides": (1, 3)}),
    "requires_grad_": (lambda x: x.requires_grad_(), {"requires_grad": True}),
    "swap": (lambda x: torch.utils.swap_tensors(x, torch.ones(9)), {"shape": (9,)}),
}


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CHANGES)
def test_the_layout_is_that_of_the_call(name: str, level: str, elsewhere: bool) -> None:
    change, expected = CHANGES[name]
    layer = nn.Identity()
    with insitu.record(level=level) as trace:
        x = torch.zeros(2, 3)
        layer(x)
        in_thread(lambda: change(x)) if elsewhere else change(x)
        layer(x)
        x.reshape(-1)
    first, second = trace.find(kind="module")
    for facts in (*second.inputs, *second.outputs, input_of(trace, "reshape")):
        assert {key: getattr(facts, key) for key in expected} == expected
    assert (*first.inputs, *first.outputs)[0].shape == (2, 3) and not first.outputs[0].requires_grad


def test_a_module_that_is_converted_outside_of_its_calls() -> None:
    layer, x = nn.Linear(3, 3), torch.ones(1, 3)
    with insitu.record(layer) as trace:
        layer(x)
        layer.double()
        layer(x.double())
    assert [call.inputs[1].dtype for call in trace.find(name="linear")] == ["f32", "f64"]


def fused_step(x: Tensor) -> None:
    parameter = nn.Parameter(x)
    parameter.grad = torch.full_like(x, -3.0)
    torch.optim.SGD([parameter], lr=1.0, fused=True).step()


WRITES: dict[str, Callable[[Tensor], object]] = {
    "view": lambda x: x[1].t()[2].fill_(3),
    "narrow": lambda x: x.narrow(0, 0, 1).copy_(torch.full((1, 3), 3.0)),
    "detach": lambda x: x.detach().add_(3),
    "data": lambda x: x.data.add_(3),
    "numpy": lambda x: x.numpy().fill(3),
    "dlpack": lambda x: torch.from_dlpack(x).add_(3),
    "out": lambda x: torch.add(torch.ones(3), 2, out=x[0]),
    "storage": lambda x: x.untyped_storage().copy_(torch.full((2, 3), 3.0).untyped_storage()),
    "fused optimizer": fused_step,
    "batch norm": lambda x: nn.functional.batch_norm(torch.full((2, 3), 3.0), x[0], x[1], training=True, momentum=1.0),
    "thread": lambda x: in_thread(lambda: x.add_(3)),
    "foreach": lambda x: torch._foreach_add_([x[0]], 3.0),
}


@pytest.mark.parametrize("level", ["modules", *LEVELS])
@pytest.mark.parametrize("name", WRITES)
def test_keep_is_called_again_after_a_write(name: str, level: str) -> None:
    layer, x = nn.Identity(), torch.zeros(2, 3)
    flat, array = x.view(-1), x.numpy()
    with insitu.record(level=level, keep="stats") as trace:
        layer([x, flat, array])
        WRITES[name](x)
        layer([x, flat, array])
        layer([x, flat, array])
    assert troubles(trace) == []
    before, after, again = ([maximum(facts) for facts in call.inputs] for call in trace.find(kind="module"))
    assert before == [0.0] * 3 and after == again == [3.0] * 3
    _, second, third = trace.find(kind="module")
    assert [facts.id for facts in second.inputs] == [facts.id for facts in third.inputs]


@pytest.mark.parametrize("level", LEVELS)
def test_the_call_that_writes_through_a_view_is_the_producer(level: str) -> None:
    with insitu.record(level=level, keep="stats") as trace:
        x = torch.zeros(2, 4)
        left, right = x[:, 0::2], x[:, 1::2]
        left.add_(1)
        right.fill_(2)
        left.sum()
        x.prod()
        x.numpy()[:] = 7
        x.mean()
    assert producer_name(trace, input_of(trace, "sum")) in ("add_", "Tensor")  # the operator is aten.add_.Tensor
    assert producer_name(trace, input_of(trace, "prod")) in ("fill_", "Scalar")
    assert maximum(input_of(trace, "mean")) == 7.0


def test_an_unseen_write_has_no_producer() -> None:
    with insitu.record(keep="stats") as trace:
        x = torch.zeros(4)
        x.numpy()[0] = 7
        x.sum()
    assert input_of(trace, "sum").producer is None


def test_compare_finds_one_cause_behind_a_write_through_a_view() -> None:
    def run(value: float) -> insitu.Trace:
        with insitu.record(keep="stats") as trace:
            grid = torch.zeros(4, 4)
            grid.narrow(0, 0, 2).copy_(torch.full((2, 4), value))
            grid.narrow(0, 1, 2)
            grid.sum()
        return trace

    text = str(insitu.compare(run(1.0), run(2.0)))
    assert "torch.full" in text and "2. at" not in text


@pytest.mark.parametrize("keep", ["stats", torch.clone])
@pytest.mark.parametrize("level", LEVELS)
def test_memory_that_was_freed_is_not_read(level: str, keep: Any) -> None:
    """As FSDP does; torch itself crashes where such a tensor is read."""
    with insitu.record(level=level, keep=keep) as trace:
        x = torch.ones(8)
        x.untyped_storage().resize_(0)
        x.view(2, 4)
        x.untyped_storage().resize_(32)
        x.fill_(3).sum()
    view, total = input_of(trace, "view"), input_of(trace, "sum")
    assert view.stats is None and view.kept is None
    assert maximum(total) == 3.0 if keep == "stats" else total.kept.tolist() == [3.0] * 8


def test_a_view_that_autograd_refuses_causes_no_trouble() -> None:
    x = torch.ones(2, 3, requires_grad=True) * 1
    with insitu.record(keep="stats") as trace:
        first, second = x.unbind()
        with torch.no_grad():
            first.add_(1)
        nn.Identity()(second)
        (x.detach().requires_grad_() * 2).sum().backward()
    assert troubles(trace) == []


class TestSwaps:
    """`torch.utils.swap_tensors` refuses tensors with weak references, and the tool has some."""

    @pytest.fixture(autouse=True)
    def nothing_is_held(self) -> Iterator[None]:
        gc.collect()
        others = set(tensor_swaps._owners)  # traces that other tests keep
        yield
        gc.collect()
        assert set(tensor_swaps._owners) <= others
        if not others:
            assert torch.utils.weakref is weakref  # type: ignore[attr-defined]
            assert "insitu" not in repr(torch._C._swap_tensor_impl)

    @pytest.mark.parametrize("level", ["modules", *LEVELS])
    def test_a_module_is_converted_by_swapping(self, level: str) -> None:
        layer, x = nn.Linear(3, 3), torch.ones(1, 3)
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            with insitu.record(level=level) as trace:
                layer(x)
                layer.double()
                layer(x.double())
            layer.float()  # the trace, which nobody has read yet, holds weak references
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        if level != "modules":
            assert [call.inputs[1].dtype for call in trace.find(name="linear", kind="function")] == ["f32", "f64"]

    def test_producers_are_swapped_too(self) -> None:
        with insitu.record() as trace:
            a, b = torch.ones(2).sin(), torch.ones(2).cos()
            torch.utils.swap_tensors(a, b)
            a.exp()
            b.log()
        assert producer_name(trace, input_of(trace, "exp")) == "cos"
        assert producer_name(trace, input_of(trace, "log")) == "sin"

    def test_other_weak_references_still_count(self) -> None:
        x, y = torch.ones(2), torch.ones(3)
        other = weakref.ref(x)
        with insitu.record(), pytest.raises(RuntimeError, match="weakref"):
            x.sum()
            torch.utils.swap_tensors(x, y)
        assert other() is x


class Names(TorchFunctionMode):
    """Somebody else who listens to torch functions."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("keep", ["meta", "stats"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("with_model", [False, True])
@pytest.mark.parametrize("is_below", [False, True])
def test_modes_of_others_do_not_see_how_facts_are_read(is_below: bool, with_model: bool, level: str, keep: str) -> None:
    layer, x, names = nn.Linear(2, 2), torch.ones(1, 2), Names()
    session = insitu.record(layer if with_model else None, level=level, keep=keep)
    outer, inner = (names, session) if is_below else (session, names)
    with outer, inner:
        layer(layer(x))
    assert names.names == ["linear", "linear"]


def test_arrays_are_read_again_at_each_call() -> None:
    array = np.zeros(6, dtype=np.float32)

    @insitu.watch
    def look(array: Any) -> None:
        """Nothing."""

    with insitu.record(keep="stats") as trace:
        look(array)
        array[:] = 5
        array.shape = (2, 3)
        look(array)
    first, second = (call.inputs[0] for call in trace.calls if isinstance(call, Call))
    assert (first.shape, maximum(first)) == ((6,), 0.0)
    assert (second.shape, maximum(second)) == ((2, 3), 5.0)
