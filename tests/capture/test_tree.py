"""The tree: module ▸ function ▸ aten, arguments, operators, times, steps, phases, and the call that raised."""

from __future__ import annotations

import dataclasses
import enum
import sys
import time
from typing import Any, NamedTuple

import numpy
import pytest
import torch
import torch.nn.functional as F
from tests.capture.oracle import ops, tree, troubles
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import insitu
from insitu.capture.recorder import Recorder
from insitu.trace.event import Call, Fields, Opaque, TensorFacts, Word


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.fc(x)) + x


def test_each_level_adds_its_calls() -> None:
    model, x = Block().requires_grad_(False), torch.randn(2, 4)
    with insitu.record(model, level="aten") as trace:
        model(x)
    linear = ["torch.nn.functional.linear", "aten.t", "aten.addmm"]
    relu = ["torch.nn.functional.relu", "aten.relu"]
    assert tree(trace) == [["Block", ["fc", linear], relu, ["torch.Tensor.add", "aten.add.Tensor"]]]
    with insitu.record(model) as trace:
        model(x)
    assert tree(trace) == [["Block", ["fc", linear[0]], relu[0], "torch.Tensor.add"]]
    with insitu.record(model, level="modules") as trace:
        model(x)
    assert tree(trace) == [["Block", "fc"]]


def test_ids_count_from_zero_and_parents_come_first() -> None:
    model = nn.Sequential(Block(), Block())
    with insitu.record(model, level="aten") as trace:
        model(torch.randn(2, 4)).sum().backward()
    assert [event.id for event in trace] == list(range(len(trace)))
    for call in trace.calls:
        assert call.parent is None or call.parent < call.id
        if call.kind == "aten":
            assert call.parent is None or isinstance(trace[call.parent], Call)
        if call.kind == "function" and call.parent is not None:
            assert trace[call.parent].kind in ("module", "function")


def test_a_subject_limits_the_recording_to_its_own_calls() -> None:
    model, x = Block(), torch.randn(2, 4)
    other = nn.Linear(4, 4)
    with insitu.record() as trace:
        other(model(x) * 2)
    assert [call.name for call in trace.roots if isinstance(call, Call)] == ["Block", "torch.Tensor.mul", "Linear"]
    with insitu.record(model) as trace:
        other(model(x) * 2)
    assert [call.name for call in trace.roots if isinstance(call, Call)] == ["Block"]


def test_modules_created_in_forward_get_a_path() -> None:
    class Maker(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.Linear(4, 4)(nn.Linear(4, 4)(x))

    with insitu.record(model := nn.Sequential(Maker())) as trace:
        model(torch.randn(2, 4))
    paths = [call.path for call in trace.calls if call.kind == "module"]
    assert paths[:2] == ["", "0"]
    assert len(set(paths)) == 4 and all(path.startswith("0.Linear") for path in paths[2:])


def test_shared_modules_have_their_first_path_and_recursion_nests() -> None:
    shared = nn.Linear(4, 4)
    model = nn.ModuleDict({"a": shared, "b": shared})
    with insitu.record(model) as trace:
        model["b"](torch.randn(1, 4))
    assert list(trace.modules) == ["a"]

    class Recursive(nn.Module):
        def forward(self, x: Tensor, depth: int) -> Tensor:
            return x.sin() if depth == 0 else self(x.cos(), depth - 1)

    recursive = Recursive()
    with insitu.record(recursive) as trace:
        recursive(torch.randn(1), 2)
    cos, sin = "torch.Tensor.cos", "torch.Tensor.sin"
    assert tree(trace) == [["Recursive", cos, ["Recursive", cos, ["Recursive", sin]]]]
    assert {call.step for call in trace.calls} == {0}


def test_modules_have_their_class_settings_and_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Conv2d(1, 2, (3, 1), bias=False), nn.Sequential(nn.Linear(2, 2)))
    model[0].weight.requires_grad_(False)
    with insitu.record(model, level="modules") as trace:
        model[0](torch.ones(1, 3))
        model[1](torch.ones(1, 1, 4, 4))
        model[2](torch.ones(1, 2))
    linear, conv, outer = (trace.modules[path] for path in ("0", "1", "2"))
    assert (linear.type, linear.parameters, linear.own_parameters, linear.trainable, linear.leaf) == (
        "Linear",
        20,
        20,
        5,
        True,
    )
    assert (linear.settings["in_features"], linear.settings["out_features"]) == (3, 5)
    assert conv.settings["kernel_size"] == (3, 1)
    assert (outer.parameters, outer.own_parameters, outer.leaf, outer.bases[:2]) == (
        6,
        0,
        False,
        ("Sequential", "Module"),
    )


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Data:
    x: Tensor
    n: int


class Named(NamedTuple):
    first: Tensor
    second: int


class Stranger:
    pass


class Taking(nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs


def shown(item: Any) -> Any:
    """An argument in a form that can be compared."""
    if isinstance(item, TensorFacts):
        return repr(item)
    if isinstance(item, (list, tuple)):
        return type(item)(shown(part) for part in item)
    if isinstance(item, dict):
        return {key: shown(part) for key, part in item.items()}
    return Fields(item.type, shown(item.items)) if isinstance(item, Fields) else item


X = torch.ones(2, 3)
ARGUMENTS = {
    "atoms": ((1, 2.5, True, None, "text", 2 + 1j), (1, 2.5, True, None, "text", 2 + 1j)),
    "containers": (
        ([X, (X, 1)], {"a": X, 1: [X]}),
        (["f32[2, 3]", ("f32[2, 3]", 1)], {"a": "f32[2, 3]", "1": ["f32[2, 3]"]}),
    ),
    "named": (
        (Data(X, 3), Named(X, 4)),
        (Fields("Data", {"x": "f32[2, 3]", "n": 3}), Fields("Named", {"first": "f32[2, 3]", "second": 4})),
    ),
    "words": (
        (torch.bfloat16, torch.device("cpu"), ..., torch.strided, torch.channels_last, Color.RED),
        ("torch.bfloat16", "cpu", "...", "torch.strided", "torch.channels_last", "Color.RED"),
    ),
    "slices": ((slice(None), slice(1, 2), slice(None, None, -1)), (":", "1:2", "::-1")),
    "size": ((X.shape, [1, 2]), ((2, 3), [1, 2])),
    "numpy": ((numpy.float32(1.5), numpy.ones(2)), (1.5, "f64[2]")),
    "functions": ((len, X.sum), ("len", "Tensor.sum")),
    "strangers": ((Stranger(), int), (Opaque("Stranger"), "int")),
    "long": (([0.5] * 100,), ([*[0.5] * 64, "… 36 more"],)),
    "many tensors": (([X] * 100,), (["f32[2, 3]"] * 100,)),
    "long dict": (
        ({i: i for i in range(100)},),
        ({**{str(i): i for i in range(64)}, "…": "… 36 more"},),
    ),
    "dict of lists of tensors": (({i: [X] for i in range(100)},), ({str(i): ["f32[2, 3]"] for i in range(100)},)),
    "dict of tensors": ((dict.fromkeys(range(100), X),), ({str(i): "f32[2, 3]" for i in range(100)},)),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_recorded_as_plain_data(name: str) -> None:
    given, expected = ARGUMENTS[name]
    model = Taking()
    with insitu.record(model, level="modules") as trace:
        model(*given)
        model(item=given)
    by_place, by_name = trace.calls
    assert len(shown(by_place.args)) == len(expected)
    if name != "functions":
        assert shown(by_place.args) == expected
        assert shown(by_name.kwargs) == {"item": expected}
        assert shown(by_place.result) == (expected, {})
    else:
        assert all(isinstance(item, Word) for item in by_place.args)
    assert troubles(trace) == []


def test_arguments_that_contain_themselves_are_cut_off() -> None:
    knot: list[Any] = [X]
    knot.extend([knot] * 50)
    model = Taking()
    with insitu.record(model, level="modules") as trace:
        model(knot)
    (call,) = trace.calls
    assert 0 < len(call.inputs) < 5000 and troubles(trace) == []


def test_inputs_and_outputs_are_found_however_deep() -> None:
    model, x, y = Taking(), torch.ones(1), torch.ones(2)
    with insitu.record(model, level="modules") as trace:
        model([x, {"a": Data(y, 1)}], k=(x,))
    (call,) = trace.calls
    assert [facts.shape for facts in call.inputs] == [(1,), (2,), (1,)]
    assert [facts.id for facts in call.outputs] == [facts.id for facts in call.inputs]


def test_tensors_have_shape_dtype_device_and_strides() -> None:
    x = torch.zeros(2, 3, dtype=torch.float16, requires_grad=True)
    parameter = nn.Parameter(torch.zeros(3))
    with insitu.record(level="aten") as trace:
        y = x.T
        torch.empty(0, dtype=torch.bool, device="meta") | True
        parameter.detach()
    transposed = trace.calls[0]
    assert transposed.name == "torch.Tensor.T"
    (before,), (after,) = transposed.inputs, transposed.outputs
    assert (before.shape, before.dtype, before.device, before.requires_grad, before.strides) == (
        (2, 3),
        "f16",
        "cpu",
        True,
        None,
    )
    assert (after.shape, after.strides, after.requires_grad, after.type) == (tuple(y.shape), y.stride(), True, "Tensor")
    meta = trace.find(name="__or__", kind="function")[0].outputs[0]
    assert (meta.shape, meta.dtype, meta.device, str(meta)) == ((0,), "b8", "meta", "b8[0]")
    assert trace.find(name="detach", kind="function")[0].inputs[0].type == "Parameter"


@pytest.mark.parametrize(
    ("dtype", "short"),
    [
        *[
            (torch.float64, "f64"),
            (torch.bfloat16, "bf16"),
            (torch.int8, "i8"),
            (torch.uint16, "u16"),
            (torch.bool, "b8"),
        ],
        *[
            (torch.complex64, "c64"),
            (torch.float8_e5m2, "f8e5m2"),
            (torch.quint8, "quint8"),
            *([(torch.float4_e2m1fn_x2, "f4e2m1fn_x2")] if hasattr(torch, "float4_e2m1fn_x2") else []),  # since 2.8
        ],
    ],
)
def test_short_dtypes(dtype: torch.dtype, short: str) -> None:
    from insitu.capture.tensors import short_dtype

    assert short_dtype(dtype) == short


OPERATORS = {
    "@": lambda x, y: x @ y,
    "+": lambda x, y: x + y,
    "-": lambda x, y: 1 - x,
    "*": lambda x, y: 2 * x,
    "/": lambda x, y: 1 / x,
    "//": lambda x, y: x // 2,
    "%": lambda x, y: x % 2,
    "**": lambda x, y: 2**x,
    "[]": lambda x, y: x[0, :],
    "<": lambda x, y: x < y,
    ">=": lambda x, y: y >= x,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "&": lambda x, y: x.bool() & True,
    "~": lambda x, y: ~x.bool(),
    "<<": lambda x, y: x.int() << 1,
}


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators_of_the_source_are_recorded_as_symbols(symbol: str) -> None:
    x, y = torch.eye(3) + 1, torch.eye(3)
    with insitu.record() as trace:
        OPERATORS[symbol](x, y)
    assert trace.calls[-1].operator == symbol
    assert trace.find(name=symbol) == [trace.calls[-1]]


def test_in_place_operators_have_symbols_and_calls_have_none() -> None:
    x = torch.eye(3)
    with insitu.record() as trace:
        x += 1
        x[0] = 2
        x[1] *= 3
        x @= torch.eye(3)
        y = -x
        y.add(1)
        torch.add(x, y).sum()
        [x + 1 for _ in range(2)]
        _ = x.T
    assert [call.operator for call in trace.calls] == [
        *["+=", "[]=", "[]", "*=", "[]=", None, "@=", "-", None, None, None, "+", "+", None],
    ]


def test_functions_have_the_names_that_users_know() -> None:
    x = torch.eye(3)
    with insitu.record() as trace:
        x.view(9)
        torch.cat([x, x])
        F.softmax(x, -1)
        torch.linalg.inv(x)
        torch.fft.fft(x)
        _ = x.data
        torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])
        torch.special.erf(x)
        torch.einsum("ij,jk->ik", x, x)
        x.shape, x.dtype, x.size(), x.dim(), x.numel(), x.device, len(x), x.is_contiguous(), x.requires_grad
    names = [call.name for call in trace.calls if call.operator is None]
    assert names == [
        *["torch.Tensor.view", "torch.cat", "torch.nn.functional.softmax", "torch.linalg.inv", "torch.fft.fft"],
        *["torch.Tensor.data", "torch.nn.functional.scaled_dot_product_attention", "torch.special.erf", "torch.einsum"],
    ]


def test_a_call_that_raises_is_recorded_with_its_inputs() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(4, 4))
    with insitu.record(level="aten") as trace, pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        model(torch.ones(2, 3))
    raised = [call for call in trace.calls if call.raised]
    assert [(call.kind, call.path, call.raised) for call in raised] == [
        *[("module", "", "RuntimeError"), ("module", "1", "RuntimeError")],
        *[("function", "1", "RuntimeError"), ("aten", "1", "RuntimeError")],
    ]
    assert [facts.shape for facts in raised[2].inputs] == [(2, 3), (4, 4), (4,)]
    assert all(call.result is None and call.duration is not None and call.duration >= 0 for call in raised)


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_every_exception_passes_through_unchanged(kind: type[BaseException], level: str) -> None:
    error = kind("mine")

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.sin()
            raise error

    model = nn.Sequential(Model())
    session = insitu.record(model, level=level)
    with pytest.raises(kind) as caught, session as trace:
        model(torch.ones(1))
    assert caught.value is error
    assert error.__context__ is None and error.__cause__ is None
    assert [(call.path, call.raised) for call in trace.find("**")] == [("", kind.__name__), ("0", kind.__name__)]
    places = [frame.f_code.co_filename for frame, _ in _walk(error)]
    assert not [place for place in places if "/src/insitu/" in place]


def _walk(error: BaseException) -> list[tuple[Any, int]]:
    import traceback

    return list(traceback.walk_tb(error.__traceback__))


def test_a_caught_exception_leaves_the_tree_in_order() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bad, self.good = nn.Linear(5, 5), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            try:
                return self.bad(x)
            except RuntimeError:
                return self.good(x)

    model = Model()
    with insitu.record(model) as trace:
        model(torch.ones(1, 3))
    linear = "torch.nn.functional.linear"
    assert tree(trace) == [["Model", ["bad", linear], ["good", linear]]]
    assert [call.raised for call in trace.calls] == [None, "RuntimeError", "RuntimeError", None, None]


def test_inner_calls_run_within_the_time_of_outer_calls() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.02)
            return x.sin()

    model = nn.Sequential(Slow(), Slow())
    with insitu.record(model, level="aten") as trace:
        model(torch.ones(3))
    root, *_ = trace.calls
    assert root.duration is not None and 40e6 <= root.duration < 2e9
    starts = [call.start for call in trace.calls]
    assert starts == sorted(starts) and starts[0] >= 0
    for call in trace.calls:
        assert call.duration is not None and call.duration >= 0
        if call.parent is not None:
            parent = trace[call.parent]
            assert isinstance(parent, Call) and parent.duration is not None
            assert parent.start <= call.start and call.start + call.duration <= parent.start + parent.duration + 1


def test_steps_are_outermost_calls_of_the_subject() -> None:
    model, x = Block(), torch.randn(1, 4)
    with insitu.record(model, level="aten") as trace:
        for _ in range(3):
            model(x).sum().backward()
    assert [call.step for call in trace.find("fc")] == [0, 1, 2]
    assert {call.step for call in trace.find(phase="backward")} == {0, 1, 2}
    assert trace.find("fc", step=1)[0].step == 1


def test_insitu_step_begins_a_step() -> None:
    model, x = Block(), torch.randn(1, 4)
    with insitu.record(model) as trace:
        for _ in range(2):
            trace.step()
            model(x)
            model(x)
    assert [call.step for call in trace.find("fc")] == [0, 0, 1, 1]
    assert [(mark.kind, mark.step) for mark in trace.marks] == [("step", 0), ("step", 1)]
    with pytest.raises(insitu.InsituError, match="inside the `with` block"):
        trace.step()


def test_a_step_marked_after_calls_begins_the_next_step() -> None:
    model, x = Block(), torch.randn(1, 4)
    with insitu.record(model) as trace:
        for _ in range(3):
            model(x)
            trace.step()
    assert [call.step for call in trace.find("fc")] == [0, 1, 2]


def by_method(loss: Tensor, x: Tensor) -> None:
    loss.backward()


def by_function(loss: Tensor, x: Tensor) -> None:
    torch.autograd.backward([loss])


def by_grad(loss: Tensor, x: Tensor) -> None:
    torch.autograd.grad(loss, x)


@pytest.mark.parametrize("run", [by_method, by_function, by_grad])
@pytest.mark.parametrize("subject", [False, True])
def test_calls_have_the_phase_forward_or_backward(run: Any, subject: bool) -> None:
    model, x = Block(), torch.randn(1, 4, requires_grad=True)
    with insitu.record(model if subject else None, level="aten") as trace:
        loss = model(x).sum()
        run(loss, x)
    phases = {call.name: call.phase for call in trace.find(kind="aten")}
    assert phases["aten.addmm"] == phases["aten.relu"] == "forward"
    assert phases["aten.threshold_backward"] == phases["aten.mm"] == "backward"


def test_a_gradient_inside_a_backward_pass_does_not_end_the_pass() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                return x * torch.autograd.grad(y.sin().sum(), y)[0]

    inner, first = Inner(), nn.Linear(4, 4)
    x = torch.randn(2, 4)
    with insitu.record(level="aten") as trace:
        checkpoint(inner, first(x), use_reentrant=False).sum().backward()
    calls = trace.find(kind="aten")
    begin = next(index for index, call in enumerate(calls) if call.phase == "backward")
    last = trace.calls.index(trace.find(name="backward", kind="function")[0])
    after = [call for call in trace.calls[last:] if call.kind == "aten"]
    assert begin > 0
    engine = [call for call in after if call.name not in ("aten.ones_like", "aten.ones_like.default")]
    assert [call.name for call in engine if call.phase == "forward"] == []
    assert {call.name: call.phase for call in engine}["aten.cos"] == "backward"


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_is_part_of_the_backward_pass(level: str, reentrant: bool) -> None:
    inner, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4, requires_grad=True)
    with insitu.record(level=level) as trace:
        checkpoint(inner, x, use_reentrant=reentrant).sum().backward()
    modules = [(call.name, call.phase) for call in trace.calls if call.kind == "module"]
    names = ["Sequential", "Linear", "ReLU"]
    assert modules == [*((name, "forward") for name in names), *((name, "recompute") for name in names)]
    again = trace.find(name="linear", kind="function")
    if level != "modules":
        assert [call.phase for call in again] == ["forward", "recompute"]
    operators = {call.phase for call in trace.find(name="aten.addmm")}
    assert operators == ({"forward", "recompute"} if level == "aten" else set())
    assert {call.phase for call in trace.find(name="aten.mm")} == ({"backward"} if level == "aten" else set())


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_function_that_is_computed_again_is_not_called_backward(reentrant: bool) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.sinh()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad.cosh()

    x = torch.randn(2, 4, requires_grad=True)
    with insitu.record(level="aten") as trace:
        checkpoint(lambda x: Double.apply(x).exp(), x, use_reentrant=reentrant).sum().backward()
    phases = {call.name: [each.phase for each in trace.find(name=call.name)] for call in trace.calls}
    assert phases["aten.exp"] == phases["aten.sinh"] == ["forward", "recompute"]
    assert phases["aten.cosh"] == ["backward"]


def test_calls_of_hooks_belong_to_the_module() -> None:
    model = nn.Linear(3, 3)
    model.register_forward_pre_hook(lambda module, args: (args[0].sin(),))
    model.register_forward_hook(lambda module, args, output: output.cos())
    with insitu.record(model) as trace:
        model(torch.ones(1, 3))
    assert tree(trace) == [["Linear", "torch.Tensor.sin", "torch.nn.functional.linear", "torch.Tensor.cos"]]
    assert trace.calls[0].outputs[0].producer == trace.calls[-1].id


def test_calls_of_optimizers_and_data_loaders_are_recorded() -> None:
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4)
    with insitu.record(level="aten") as trace:
        for (x,) in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    assert troubles(trace) == []
    assert [name for name in ops(trace) if "_foreach" in name or "addcdiv" in name]
    assert len(trace.find(name="Linear")) == 2


def test_events_can_be_read_during_and_after_the_session() -> None:
    x = torch.ones(1)
    with insitu.record() as trace:
        x.sin()
        assert [call.name for call in trace.calls] == ["torch.Tensor.sin"]
        x.cos()
        assert [call.name for call in trace.calls] == ["torch.Tensor.sin", "torch.Tensor.cos"]
        first = trace.calls[0]
    x.tan()
    assert len(trace) == 2
    assert trace.calls[0].id == first.id and trace.calls is not trace.calls


def test_a_running_call_has_no_duration() -> None:
    seen: list[Call] = []

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.extend(trace.calls)
            return x

    model = Model()
    with insitu.record(model) as trace:
        model(torch.ones(1))
    assert (seen[0].duration, seen[0].result, seen[0].raised) == (None, None, None)
    assert trace.calls[0].duration is not None


LIVE = {
    "calls": lambda call: (call.kind, call.name, call.path, call.phase, call.operator, call.raised, call.thread),
    "steps": lambda call: (call.name, call.step),
    "results": lambda call: repr(call.result),
    "arguments": lambda call: (repr(call.args), repr(call.kwargs)),
    "facts": lambda call: [(item.dtype, item.requires_grad, item.strides) for item in (*call.inputs, *call.outputs)],
    "sites": lambda call: [(site.line, site.function) for site in call.site.chain()][-1:],
}


@pytest.mark.parametrize("what", [*LIVE, "parents", "producers", "tensors"])
@pytest.mark.parametrize("passes", [3, 60])  # with many, the tape is cleared on the way
def test_live_events_are_those_of_the_recording(what: str, passes: int) -> None:
    model = nn.Sequential(Block(), nn.Dropout(0.5), Block())
    x = torch.randn(2, 4)
    live: list[Any] = []

    def run() -> None:
        model.zero_grad()
        y = x
        for _ in range(passes):
            y = model(y)
            y.sum().backward(retain_graph=True)
            y = y.detach()

    with insitu.record(model, level="aten") as trace:
        run()
    recorder = Recorder(model, level="aten", keep="meta", only=(), sinks=[live.append])
    recorder.start(sys._getframe())
    try:
        run()
    finally:
        recorder.stop()
    live.sort(key=lambda event: event.id)
    order = {event.id: index for index, event in enumerate(live)}
    if what == "parents":
        assert [order.get(call.parent) for call in live] == [call.parent for call in trace.calls]
    elif what == "producers":
        made = [[order.get(item.producer) for item in call.inputs] for call in live]
        assert made == [[item.producer for item in call.inputs] for call in trace.calls]
    elif what == "tensors":
        assert same_numbering([item.id for call in live for item in (*call.inputs, *call.outputs)]) == same_numbering(
            [item.id for call in trace.calls for item in (*call.inputs, *call.outputs)]
        )
    else:
        assert [LIVE[what](call) for call in live] == [LIVE[what](call) for call in trace.calls]


def same_numbering(ids: list[int]) -> list[int]:
    """Ids in the order in which they appear."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(number, len(numbers)) for number in ids]


class BadTuple(tuple):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise RuntimeError("do not count")


class Lying:
    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("do not ask")


class Pretending:
    __class__ = Tensor  # type: ignore[assignment]


@dataclasses.dataclass
class Unset:
    value: int = dataclasses.field(init=False)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("do not look")


@pytest.mark.parametrize("kind", [BadTuple, Lying, Pretending, Unset])
def test_an_unreadable_argument_is_recorded_as_its_type(kind: type) -> None:
    model = nn.Sequential(Taking())
    with insitu.record(model, level="modules") as trace:
        model([kind(), X])
    assert troubles(trace) == []
    assert [call.path for call in trace.calls] == ["", "0"]
    odd, tensor = trace.calls[0].args[0]
    assert odd == (Fields("Unset", {}) if kind is Unset else Opaque(kind.__name__)) or kind is BadTuple
    assert repr(tensor) == "f32[2, 3]"


def test_an_unhashable_function_is_recorded() -> None:
    class Callable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: Tensor) -> Tensor:
            return x.sin()

    with insitu.record() as trace:
        torch.overrides.handle_torch_function(Callable(), (X,), X)
    assert troubles(trace) == []
    assert len(trace.calls) == 1


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_a_recomputation_that_torch_stops_is_no_failure(level: str) -> None:
    layer = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    with insitu.record(level=level) as trace:
        checkpoint(layer, torch.ones(2, 3, requires_grad=True), use_reentrant=False).sum().backward()
    again = [call for call in trace.find("**") if call.phase == "recompute" and call.kind == "module"]
    assert [call.path for call in again] == ["", "0", "1"]
    assert not [call for call in trace.calls if call.raised is not None] and "✗" not in str(trace)
    assert again[0].result is None and again[0].duration is not None
