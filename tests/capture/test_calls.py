"""What is recorded of a call by what kind of callable it is: its name, whether it tells facts only, what it changes."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode, get_testing_overrides
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import insitu
from insitu.capture.calls import FACTS, FunctionCallee

PRIVATE = ("_nn", "_linalg", "_fft", "_special", "_sparse", "_nested")


def overloads() -> Iterator[OpOverload]:
    """All overloads of the operators of ATen."""
    for qualified in torch._C._dispatch_get_all_op_names():
        space, _, rest = qualified.partition("::")
        base, _, overload = rest.partition(".")
        if space == "aten":
            yield getattr(getattr(torch.ops.aten, base), overload or "default")


def names(trace: insitu.Trace) -> list[str]:
    return [call.name for call in trace.calls]


def look_up(name: str) -> Any:
    """What a recorded name names."""
    first, *rest = name.removesuffix("=").split(".")
    assert first == "torch"
    found: Any = torch
    for part in rest:
        found = getattr(found, part)
    return found


def sample(argument: Any) -> Any:
    """An argument for an operator that reduces, squeezes or converts a matrix."""
    kind = str(argument.type)
    if kind == "Tensor":
        return torch.eye(2).to_sparse() if argument.name == "sparse" else torch.eye(2)
    known = {"dim": [1] if kind.startswith("List[") else 1, "sparse_dim": 2, "size": [2, 2]}
    return known.get(argument.name, torch.device("cpu") if kind == "Device" else torch.float32)


@pytest.mark.filterwarnings("ignore:.* is deprecated")  # torch 2.15 says so of some operators
def test_an_operator_whose_overload_is_called_like_a_property_is_recorded() -> None:
    alike = [each for each in overloads() if each._overloadname in FACTS or hasattr(Tensor, each._overloadname)]
    assert {str(each) for each in alike} >= {"aten.mean.dim", "aten.max.dim", "aten.to.device", "aten.squeeze_.dim"}
    silent = [each for each in alike if FunctionCallee(each).silent and each._opname not in FACTS]
    assert silent == []
    called = []
    for each in alike:
        given = [sample(argument) for argument in each._schema.arguments if not argument.has_default_value()]
        with insitu.record() as trace, contextlib.suppress(RuntimeError, TypeError, IndexError, NotImplementedError):
            each(*given)  # some need another sample, and raise; what raises is recorded, too
            called.append(each)
        assert each._opname in FACTS or names(trace) == [f"torch.ops.{each}"] or each not in called
    assert len(called) >= 20


@pytest.mark.parametrize("operator", ["mean", "std", "var", "std_mean", "var_mean"])
def test_an_operator_whose_overload_is_called_dim_is_guarded(operator: str) -> None:
    call, x = getattr(torch.ops.aten, operator).dim, torch.tensor([[3e38, 3e38 if operator == "mean" else -3e38]])
    with pytest.raises(insitu.NonFiniteError, match=f"torch.ops.aten.{operator}.dim produced Inf"), insitu.guard():
        call(x, [1])


def test_facts_are_told_from_operators_of_the_same_name_in_other_libraries() -> None:
    library = torch.library.Library("insitu_test_calls", "FRAGMENT")
    library.define("size(Tensor x) -> Tensor")
    library.impl("size", lambda x: x + 1, "CompositeExplicitAutograd")
    x = torch.ones(2)
    with insitu.record() as trace:
        torch.ops.insitu_test_calls.size(x)
        torch.ops.aten.size(x)
        torch.ops.aten.sym_size.int(x, 0)
        x.size()
    assert names(trace) == ["torch.ops.insitu_test_calls.size"]


def test_operators_that_change_their_first_argument_are_known_by_their_schema() -> None:
    for each in overloads():
        arguments = each._schema.arguments
        writes = bool(arguments and arguments[0].alias_info and arguments[0].alias_info.is_write)
        assert FunctionCallee(each).in_place == writes, each
    assert FunctionCallee(torch.ops.aten.add_).in_place
    assert not FunctionCallee(torch.ops.aten.add).in_place


def test_an_operator_in_place_makes_a_new_value() -> None:
    x = torch.ones(3)
    with insitu.record(keep=torch.clone) as trace:
        y = x * 2
        torch.ops.aten.add_.Tensor(y, y)
        y.sum()
    assert trace.calls[-1].inputs[0].kept.tolist() == [4.0, 4.0, 4.0]
    assert trace.calls[-1].inputs[0].producer == trace.calls[1].id


@pytest.mark.filterwarnings("ignore")
def test_each_recorded_name_names_something() -> None:
    private = [getattr(torch._C, name) for name in PRIVATE]
    hidden = [getattr(module, name) for module in private for name in dir(module) if not name.startswith("__")]
    functions = [*get_testing_overrides(), *filter(callable, hidden), *overloads(), torch._C._set_grad_enabled]
    wrong = []
    for function in functions:
        name = FunctionCallee(function).name
        try:
            look_up(name)
        except AttributeError:
            wrong.append(name)
    assert wrong == []
    assert FunctionCallee(F.logsigmoid).name == "torch.nn.functional.logsigmoid"
    assert FunctionCallee(torch.linalg.inv).name == "torch.linalg.inv"


class Tensors:
    class Tensor:
        @staticmethod
        def backward(x: Tensor) -> Tensor:
            return torch.overrides.handle_torch_function(Tensors.Tensor.backward, (x,), x)


def test_methods_of_other_classes_are_not_named_torch_tensor() -> None:
    Tensors.Tensor.backward.__qualname__ = "Tensor.backward"
    callee = FunctionCallee(Tensors.Tensor.backward)
    assert callee.name == f"{__name__}.Tensor.backward"
    assert not callee.runs_backward
    assert FunctionCallee(Tensor.backward).runs_backward


@pytest.mark.parametrize("level", ["functions", "aten"])
def test_a_change_of_requires_grad_is_recorded(level: str) -> None:
    with insitu.record(level=level) as trace:
        x = torch.ones(2)
        x.requires_grad_()
        y = torch.ones(3)
        y.requires_grad = True
        x * 2
        y * 2
    functions = [call for call in trace.calls if call.kind == "function"]
    assert [call.name.removeprefix("torch.") for call in functions] == [
        *("ones", "Tensor.requires_grad_", "ones", "Tensor.requires_grad=", "Tensor.mul", "Tensor.mul")
    ]
    assert [call.outputs[0].requires_grad for call in functions[:3]] == [False, True, False]
    assert [call.inputs[0].requires_grad for call in functions[-2:]] == [True, True]


def scripted() -> Callable[[Tensor], Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit.script is deprecated

        @torch.jit.script
        def function(x: Tensor) -> Tensor:
            return torch.mean(x * 2, dim=1).relu()

    for _ in range(2):
        function(torch.ones(2, 3))
    return function


def test_operators_of_torchscript_are_recorded_once() -> None:
    function, x = scripted(), torch.ones(2, 3)
    with insitu.record(level="aten") as trace:
        function(x)
    assert [(call.kind, call.name) for call in trace.calls] == [
        *(("aten", "aten.mul.Scalar"), ("aten", "aten.mean.dim"), ("aten", "aten.relu"))
    ]


def test_operators_of_torchscript_stay_hidden_from_function_modes() -> None:
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    function, x = scripted(), torch.ones(2, 3)
    with Mode(), insitu.record(level="aten") as trace:
        function(x)
    assert len(trace.calls) == 3
    assert seen == []


def elementwise(x: Tensor) -> None:
    (x.exp() * x.sigmoid()).sum().backward()


def training(x: Tensor) -> None:
    model = MODELS["training"]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).softmax(-1).log().mean().backward()
        optimizer.step()


def detached(x: Tensor) -> None:
    y = x.exp().detach()
    z = (x * y).tanh()
    z.data.add(1)
    torch.autograd.grad(z.sum(), x)


def twice(x: Tensor) -> None:
    (grad,) = torch.autograd.grad((x.sigmoid() ** 3).sum(), x, create_graph=True)
    grad.sum().backward()


def recomputed(x: Tensor) -> None:
    checkpoint(MODELS["training"], x, use_reentrant=False).sum().backward()


def recurrent(x: Tensor) -> None:
    MODELS["recurrent"](x)[0].sum().backward()


MODELS = {
    "training": nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4), nn.Sigmoid()),
    "recurrent": nn.LSTM(4, 3),
}


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")  # torch up to 2.12
@pytest.mark.parametrize("program", [elementwise, training, detached, twice, recomputed, recurrent])
def test_the_operators_are_those_of_the_dispatcher(program: Callable[[Tensor], None]) -> None:
    """A mode hides nothing and adds nothing, but gradients are added out of place under any of them."""
    x = torch.randn(2, 4, requires_grad=True)
    program(x)
    x.grad = None
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        program(x)
    x.grad = None
    with insitu.record(level="aten") as trace:
        program(x)
    events = [event.name.partition("::") for event in profiled.events()]
    dispatched = Counter(name.rstrip("_") for space, _, name in events if space == "aten")
    found = [call.name.split(".") for call in trace.find(kind="aten")]
    recorded = Counter(name.rstrip("_") for space, name, *_ in found if space == "aten")
    assert recorded["detach"] == dispatched["detach"] > 0
    assert recorded - dispatched == Counter()


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_calls_inside_vmap_are_marked_and_operators_that_see_the_batch_are_not(level: str) -> None:
    layer, x = torch.nn.Linear(3, 4), torch.ones(5, 3)

    def inside(row: Tensor) -> Tensor:
        return layer(torch.sin(row)).sum()

    with insitu.record(level=level) as trace:
        torch.sin(x)
        torch.vmap(inside)(x)
        layer(x)
    modes = [(call.name.rpartition(".")[2], call.mode) for call in trace.calls if call.kind != "aten"]
    expected = [("sin", "eager"), ("sin", "vmap"), ("Linear", "vmap"), ("linear", "vmap"), ("sum", "vmap")]
    expected += [("Linear", "eager"), ("linear", "eager")]
    if level == "modules":
        expected = [(name, mode) for name, mode in expected if name == "Linear"]
    assert modes == expected
    assert {call.mode for call in trace.calls if call.kind == "aten"} <= {"eager"}
    sample = [call.outputs[0].shape for call in trace.calls if call.name == "Linear"]
    assert sample == [(4,), (5, 4)]


def test_calls_inside_vmap_have_the_site_of_the_user() -> None:
    with insitu.record() as trace:
        torch.vmap(lambda row: row.sin())(torch.ones(5, 3))
    (call,) = trace.find(name="sin")
    assert call.site is not None and call.site.text.strip().startswith("torch.vmap(lambda row")
    assert all("vmap.py" not in place.file for place in call.site.chain())
