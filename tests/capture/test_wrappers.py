"""Wrappers of packages that are not installed here: classes with the names and attributes that they document."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu.capture.names import WRAPPERS, innermost_module, tensor_names


class Net(nn.Module):
    """A model with a child that has the name of many wrappers' attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.module(x)
        return self.head(h)  # type: ignore[no-any-return]


def wrapper_class(name: str, base: type[nn.Module] = nn.Module) -> type[nn.Module]:
    """A class with this full name that holds a model as the table says, and calls it."""
    module, _, own = name.rpartition(".")
    attribute = WRAPPERS.get(name, "")

    def hold(self: Any, model: nn.Module) -> None:
        nn.Module.__init__(self)
        self.add_module(attribute, model)

    def forward(self: Any, x: Tensor) -> Any:
        return getattr(self, attribute)(x)

    body = {"__init__": hold, "forward": forward} if attribute else {}
    return type(own, (base,), {**body, "__module__": module})


FOREIGN = sorted(name for name in WRAPPERS if not name.startswith("torch."))
ENGINE = wrapper_class("deepspeed.runtime.engine.DeepSpeedEngine")
PIPELINE = wrapper_class("deepspeed.runtime.pipe.engine.PipelineEngine", ENGINE)
MEGATRON = wrapper_class("megatron.core.distributed.distributed_data_parallel.DistributedDataParallel")
FLOAT16 = wrapper_class("megatron.core.transformer.module.Float16Module")
SHARDED = wrapper_class(
    "megatron.core.distributed.torch_fully_sharded_data_parallel.TorchFullyShardedDataParallel",
    wrapper_class("megatron.core.distributed.data_parallel_base._BaseDataParallel"),
)

Wrap = Any
WRAPS: dict[str, Wrap] = {name: wrapper_class(name) for name in FOREIGN}
WRAPS |= {
    "a subclass of DeepSpeedEngine": PIPELINE,
    "a subclass of _BaseDataParallel": SHARDED,
    "Megatron": lambda net: MEGATRON(FLOAT16(net)),
    "DeepSpeed and torch.compile": lambda net: ENGINE(torch.compile(net, backend="eager")),
}


@pytest.mark.parametrize("name", WRAPS)
def test_paths_are_those_of_the_model(name: str) -> None:
    net = Net()
    model = WRAPS[name](net)
    assert innermost_module(model) is net
    assert list(tensor_names(model)) == ["", "module", "head"]


@pytest.mark.parametrize("wrap", [ENGINE, WRAPS["Megatron"]], ids=["DeepSpeed", "Megatron"])
def test_sessions_see_the_model_inside(wrap: Any) -> None:
    model = wrap(Net())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def train() -> None:
        for number in range(4):
            model(torch.ones(2, 3)).mean().div(2).backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()

    with insitu.record_run(model, only=["forward.h", "module", "head.weight.grad"], step="update") as live:
        train()
    assert sorted(live) == ["forward.h", "head.weight.grad", "module"]
    assert live["forward.h"].steps.tolist() == [0, 0, 1, 1] and live["head.weight.grad"].steps.tolist() == [0, 1]
    with insitu.guard(model) as guard, insitu.record(model) as trace:
        train()
    assert guard.findings == []
    assert {call.path for call in trace.calls if call.kind == "module"} == {"", "module", "head"}


def test_a_class_of_the_user_with_the_same_name_is_a_module() -> None:
    mine = type("DeepSpeedEngine", (nn.Sequential,), {"__module__": "mine"})
    assert list(tensor_names(mine(nn.Linear(2, 2)))) == ["", "0"]
