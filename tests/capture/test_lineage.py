"""Who made a tensor and who used it, also when it is changed in place, when ids are used again, and in lists."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import insitu
from insitu.trace.event import Call

LEVELS = ["functions", "aten"]


def made_by(trace: insitu.Trace, call: Call) -> list[str | None]:
    """The names of the calls that made the inputs of a call; an operator is named by the function that ran it."""
    names = []
    for facts in call.inputs:
        producer = trace.producer(facts)
        while producer is not None and producer.kind == "aten" and producer.parent is not None:
            outer = trace[producer.parent]
            assert isinstance(outer, Call)
            producer = outer
        names.append(producer.name.removeprefix("torch.").removeprefix("Tensor.") if producer is not None else None)
    return names


def functions(trace: insitu.Trace) -> dict[str, Call]:
    """The function calls by the last part of their name; of several, the last one."""
    return {call.name.rpartition(".")[2]: call for call in trace.find(kind="function")}


@pytest.mark.parametrize("level", LEVELS)
def test_each_output_names_the_call_that_produced_it(level: str) -> None:
    x = torch.ones(3)
    with insitu.record(level=level) as trace:
        y = x.sin()
        z = y.cos() + y
        z.sum()
    calls = functions(trace)
    assert made_by(trace, calls["sin"]) == [None]
    assert made_by(trace, calls["add"]) == ["cos", "sin"]
    assert made_by(trace, calls["sum"]) == ["add"]
    users = [call.name for call in trace.consumers(calls["sin"].outputs[0]) if call.kind == "function"]
    assert users == ["torch.Tensor.cos", "torch.Tensor.add"]
    assert trace.consumers(calls["sum"].outputs[0]) == []


@pytest.mark.parametrize("level", LEVELS)
def test_an_argument_used_twice_is_one_tensor_without_producer(level: str) -> None:
    x = torch.ones(3)
    with insitu.record(level=level) as trace:
        x.sin()
        x.cos()
    first, second = (call.inputs[0] for call in trace.find(kind="function"))
    assert first.id == second.id and first.producer is None
    assert [call.name for call in trace.consumers(first) if call.kind == "function"] == [
        "torch.Tensor.sin",
        "torch.Tensor.cos",
    ]


IN_PLACE = {
    "add_": lambda x: x.add_(1),
    "iadd": lambda x: x.__iadd__(1),
    "setitem": lambda x: x.__setitem__(0, 5.0),
    "setitem slice": lambda x: x.__setitem__(slice(1), torch.zeros(1)),
    "fill_": lambda x: x.fill_(2),
    "zero_": lambda x: torch.zero_(x),
    "copy_": lambda x: x.copy_(torch.zeros(3)),
    "out": lambda x: torch.sin(torch.ones(3), out=x),
    "out of two": lambda x: torch.sort(torch.ones(3), out=(x, torch.zeros(3, dtype=torch.long))),
    "relu inplace": lambda x: F.relu(x, inplace=True),
    "dropout inplace": lambda x: F.dropout(x, 0.5, inplace=True),
    "index_put_": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(3.0)),
    "foreach": lambda x: torch._foreach_add_([x, torch.zeros(3)], 1.0),
    "init": lambda x: nn.init.normal_(x),
    "data": lambda x: setattr(x, "data", torch.zeros(3)),
    "uniform_": lambda x: x.uniform_(),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("level", LEVELS)
def test_a_change_in_place_makes_a_new_moment(name: str, level: str) -> None:
    with insitu.record(level=level) as trace:
        x = torch.ones(3).exp()
        IN_PLACE[name](x)
        x.sum()
    calls = trace.find(kind="function")
    made = trace.find(name="exp", kind="function")[0].outputs[0]
    used = trace.find(name="sum", kind="function")[0].inputs[0]
    producer = trace.producer(used)
    assert producer is not None
    assert calls[1].id < producer.id < trace.find(name="sum", kind="function")[0].id
    assert used.id != made.id
    if level == "functions":
        assert producer is calls[-2]
    assert trace.find(name="sum", kind="function")[0] not in trace.consumers(made)


def test_inplace_modules_at_every_level() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3)).requires_grad_(False)
    for level in ("modules", "functions", "aten"):
        with insitu.record(model, level=level) as trace:
            model(torch.ones(1, 3))
        modules = {call.path: call for call in trace.find("**", kind="module")}
        producer = trace.producer(modules["2"].inputs[0])
        while producer is not None and producer.kind != "module":
            producer = trace[producer.parent] if producer.parent is not None else None  # type: ignore[assignment]
        assert producer is modules["1"], level


@pytest.mark.parametrize("level", LEVELS)
def test_views_are_tensors_of_their_own(level: str) -> None:
    with insitu.record(level=level) as trace:
        x = torch.ones(4, 4)
        row = x[0]
        flat = x.view(-1)
        row.sum()
        flat.sum()
    first, second = trace.find(name="sum", kind="function")
    assert made_by(trace, first) == ["__getitem__"] or trace.producer(first.inputs[0]).operator == "[]"  # type: ignore[union-attr]
    assert made_by(trace, second) == ["view"]


@pytest.mark.parametrize("level", LEVELS)
def test_each_of_several_outputs_is_a_tensor_of_its_own(level: str) -> None:
    with insitu.record(level=level) as trace:
        a, b, _ = torch.arange(9.0).chunk(3)
        values, indices = torch.max(torch.stack([a, b]), dim=0)
        values.sum(), indices.sum()
    stack = functions(trace)["stack"]
    assert made_by(trace, stack) == ["chunk", "chunk"]
    assert stack.inputs[0].id != stack.inputs[1].id
    assert all(made_by(trace, call) == ["max"] for call in trace.find(name="sum", kind="function"))


@pytest.mark.parametrize("level", LEVELS)
def test_tensors_in_lists_and_keywords_have_their_producers(level: str) -> None:
    with insitu.record(level=level) as trace:
        parts = [torch.ones(1).sin(), torch.ones(1).cos()]
        joined = torch.cat(tensors=parts, dim=0)
        F.linear(joined, weight=torch.ones(2, 2).tan())
    assert made_by(trace, functions(trace)["cat"]) == ["sin", "cos"]
    assert made_by(trace, functions(trace)["linear"]) == ["cat", "tan"]


def test_a_module_hands_on_what_was_made_inside() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Identity())
    with insitu.record(model) as trace:
        model(torch.ones(1, 3))
    root, first, linear, identity = trace.calls
    assert root.outputs[0] is identity.outputs[0] is linear.outputs[0]
    assert trace.producer(root.outputs[0]) is linear
    assert first.outputs[0].id == identity.inputs[0].id


def test_foreach_optimizers_make_the_parameters_anew() -> None:
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=True)
    with insitu.record(level="aten") as trace:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        model(torch.ones(1, 3))
    first, second = (call for call in trace.find(name="linear", kind="function") if call.phase == "forward")
    assert trace.producer(first.inputs[1]) is None
    producer = trace.producer(second.inputs[1])
    assert producer is not None and "_foreach_add_" in producer.name


class Strong(TorchDispatchMode):
    """Holds every tensor, so that no id is used again: who made which is then certain."""

    def __init__(self) -> None:
        super().__init__()
        self.makers: dict[int, int] = {}
        self.held: list[Any] = []
        self.inputs: list[list[int | None]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:  # torch makes it where a new tensor is held by somebody
            result = func(*args, **(kwargs or {}))
            self.makers[id(result)] = self.makers[id(args[0])]
            self.held.append(result)
            return result
        tensors = [item for item in torch.utils._pytree.tree_leaves((args, kwargs or {})) if isinstance(item, Tensor)]
        self.inputs.append([self.makers.get(id(item)) for item in tensors])
        number = len(self.inputs) - 1
        self.held.append(tensors)
        result = func(*args, **(kwargs or {}))
        made = [item for item in torch.utils._pytree.tree_leaves(result) if isinstance(item, Tensor)]
        self.makers.update((id(item), number) for item in made)
        self.held.append(made)
        return result


def temporaries() -> None:
    choose = random.Random(0)
    pool = [torch.ones(4) for _ in range(5)]
    for _ in range(1500):
        a, b = choose.choice(pool), choose.choice(pool)
        choice = choose.randrange(5)
        if choice == 0:
            pool[choose.randrange(5)] = (a + b) / 2
        elif choice == 1:
            pool[choose.randrange(5)] = a.sin().view(2, 2).reshape(4)
        elif choice == 2:
            a.add_(b.mean())
        elif choice == 3:
            a[1:].mul_(0.5)
        else:
            torch.stack([a, b]).sum(0).unbind()


def test_reused_object_ids_do_not_give_wrong_producers() -> None:
    with torch.no_grad(), Strong() as strong:
        temporaries()
    with torch.no_grad(), insitu.record(level="aten") as trace:
        temporaries()
    calls = trace.find(kind="aten")
    assert len(calls) == len(strong.inputs) > 3000
    order = {call.id: index for index, call in enumerate(calls)}
    for call, expected in zip(calls, strong.inputs, strict=True):
        assert [order[facts.producer] if facts.producer is not None else None for facts in call.inputs] == expected


def test_producers_agree_at_the_levels_functions_and_aten() -> None:
    """The function that made a tensor is the one in which the operator ran."""

    def run() -> None:
        torch.manual_seed(0)
        temporaries()

    found = []
    for level in LEVELS:
        with torch.no_grad(), insitu.record(level=level) as trace:
            run()
        calls = [call for call in trace.find(kind="function") if "grad_enabled" not in call.name]
        order = {call.id: index for index, call in enumerate(calls)}
        makers = []
        for call in calls:
            row = []
            for facts in call.inputs:
                maker = trace.producer(facts)
                while maker is not None and maker.kind == "aten":
                    maker = trace[maker.parent] if maker.parent is not None else None  # type: ignore[assignment]
                row.append(order[maker.id] if maker is not None else None)
            makers.append(row)
        found.append(makers)
    assert found[0] == found[1]


def test_requires_grad_is_as_the_user_sees_it() -> None:
    x = torch.ones(3, requires_grad=True)
    for level in LEVELS:
        with insitu.record(level=level) as trace:
            y = x.sin()
            z = y.detach()
            z.cos()
            with torch.no_grad():
                x.exp()
        calls = functions(trace)
        assert [calls[name].outputs[0].requires_grad for name in ("sin", "detach", "cos", "exp")] == [
            True,
            False,
            False,
            False,
        ]
