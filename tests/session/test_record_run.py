"""Values of a whole run by path: what is recorded, when, and what survives."""

from __future__ import annotations

import copy
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu.session.run_entry import RunEntry

# Python 3.12 and later warn of each fork of a process with threads.
WITHOUT_FORK_WARNING = ("-W", "ignore:This process:DeprecationWarning")


def scale(q: Tensor) -> Tensor:
    s = q * 2
    return s


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm1d(4)])
        self.head = nn.Linear(4, 2)
        self.count = 0

    def helper(self, z: Tensor) -> Tensor:
        w = z + 1
        return w

    @staticmethod
    def total(a: Tensor) -> Tensor:
        b = a.sum()
        return b

    def forward(this, x: Tensor) -> Tensor:
        this.count += 1
        h = x
        for layer in this.encoder:
            h = layer(h)
        d = {"nest": {"q": h.mean()}, "list": [1, h[0]], "pair": Pair(h, h)}
        h = this.helper(h)
        this.total(h)
        scale(h)
        out: Tensor = this.head(h) + d["nest"]["q"]  # type: ignore[index]
        return out


def train(model: nn.Module, steps: int, *, inner: nn.Module | None = None) -> list[Tensor]:
    """Train for some steps; the inputs."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD((inner or model).parameters(), 0.1)
    inputs = [torch.randn(3, 4) for _ in range(steps)]
    for x in inputs:
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    return inputs


EVERYTHING = (
    *("forward", "forward.x", "forward.h", "encoder.*", "encoder.1.running_mean", "head.weight", "head.weight.grad"),
    *(
        "helper",
        "helper.w",
        "total",
        "total.b",
        "scale.s",
        "forward.this.count",
        "forward.d.nest.q",
        "forward.d.list.*",
    ),
    *("forward.d.pair.left", "encoder.0.forward.input"),
)


def test_every_kind_of_path(tmp_path: Path) -> None:
    net = Net()
    with insitu.record_run(net, only=EVERYTHING, keep="values", to=tmp_path / "run.h5") as recorded:
        inputs = train(net, 3)
    run = insitu.load(tmp_path / "run.h5")
    assert sorted(run.paths) == sorted(
        [
            *("forward", "forward.x", "forward.h", "encoder.0", "encoder.1", "encoder.1.running_mean", "head.weight"),
            *("head.weight.grad", "helper", "helper.w", "total", "total.b", "scale.s", "forward.this.count"),
            *("forward.d.nest.q", "forward.d.list.0", "forward.d.list.1", "forward.d.pair.left"),
            "encoder.0.forward.input",
        ]
    )
    assert np.array_equal(run["forward.x"].values, torch.stack(inputs).numpy())
    assert np.array_equal(run["encoder.0.forward.input"].values, torch.stack(inputs).numpy())
    assert (
        run["forward.h"].calls.tolist() == [0, 1, 2, 3] * 3
        and run["forward.h"].steps.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    )
    assert list(run["forward.this.count"].values)[-1] == net.count
    assert np.array_equal(run["head.weight"].values[-1], net.head.weight.detach().numpy())
    assert net.head.weight.grad is not None
    assert np.array_equal(run["head.weight.grad"].values[-1], net.head.weight.grad.numpy())
    assert np.array_equal(run["encoder.1.running_mean"].values[-1], net.encoder[1].running_mean.numpy())  # type: ignore[union-attr, operator]
    assert np.array_equal(run["total"].values, run["total.b"].values)
    assert recorded["forward"].values.shape == (3, 3, 2)
    with h5py.File(tmp_path / "run.h5") as file:
        assert file["vars/forward.x/values"].shape == (3, 3, 4)


def test_outputs_gradients_and_random_numbers_are_the_same(tmp_path: Path) -> None:
    torch.manual_seed(1)
    plain = Net()
    torch.manual_seed(1)
    watched = Net()
    train(plain, 4)
    state = torch.get_rng_state()
    with insitu.record_run(watched, only=EVERYTHING, keep="values", to=tmp_path / "run.h5"):
        train(watched, 4)
    assert torch.equal(state, torch.get_rng_state())
    for one, other in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    for name in ("helper", "total", "forward"):
        assert not hasattr(getattr(vars(Net)[name], "__func__", vars(Net)[name]), "__wrapped__")


def test_every_and_when() -> None:
    net = Net()
    with insitu.record_run(net, only="forward.x", every=2, when="train") as recorded:
        for training in (True, True, False, False, True, True):
            net.train(training)
            net(torch.ones(3, 4))
    assert recorded["forward.x"].steps.tolist() == [0, 4]
    with insitu.record_run(net, only="forward.x", when="eval") as recorded:
        for training in (True, False):
            net.train(training)
            net(torch.ones(3, 4))
    assert recorded["forward.x"].steps.tolist() == [1]


def test_steps_as_they_are_said() -> None:
    net = Net()
    with insitu.record_run(net, only="forward.x", keep="values") as recorded:
        for _ in range(2):
            recorded.step()
            net(torch.ones(3, 4))
            net(torch.zeros(3, 4))
    series = recorded["forward.x"]
    assert series.steps.tolist() == [0, 0, 1, 1] and series.calls.tolist() == [0, 1, 0, 1]


def test_keep_by_path() -> None:
    net = Net()
    keep = {"head.*": "stats", "forward.h": lambda tensor: tensor.mean(0), "**": "values"}
    with insitu.record_run(net, only=["head.weight", "forward.h", "forward.x"], keep=keep) as recorded:
        train(net, 2)
    assert recorded["forward.h"].values.shape == (8, 4)
    assert recorded["forward.x"].values.shape == (2, 3, 4)
    assert recorded["head.weight.mean"].values[-1] == pytest.approx(net.head.weight.mean().item())


class Kinds(nn.Module):
    def forward(self, index: int) -> Tensor:
        half = torch.tensor([1.5, float("nan")], dtype=torch.bfloat16)
        whole = torch.tensor([2**40 + 1])
        flags = torch.tensor([True, False])
        waves = torch.tensor([1 + 2j])
        grown = torch.ones(index + 1)
        name = f"step {index}"
        nothing = None
        array = np.arange(3, dtype=np.uint16)
        return (
            half.sum()
            + whole.sum()
            + flags.sum()
            + waves.real.sum()
            + grown.sum()
            + len(name)
            + array.sum().item()
            + (nothing or 0)
        )


def test_values_of_every_kind_come_back_as_they_were(tmp_path: Path) -> None:
    model = Kinds()
    with insitu.record_run(model, only="forward.*", keep="values", to=tmp_path / "run.h5"):
        for index in range(3):
            model(index)
    run = insitu.load(tmp_path / "run.h5")
    half = run["forward.half"].to_torch()
    assert half.dtype is torch.bfloat16 and half[0, 0] == 1.5 and bool(half[:, 1].isnan().all())
    assert run["forward.whole"].values.tolist() == [[2**40 + 1]] * 3
    assert run["forward.flags"].values.dtype == bool and run["forward.waves"].values.tolist() == [[1 + 2j]] * 3
    assert [len(value) for value in run["forward.grown"].values] == [1, 2, 3]
    padded, lengths = run["forward.grown"].padded(fill=0)
    assert padded.shape == (3, 3) and np.asarray(lengths).reshape(-1).tolist() == [1, 2, 3]
    assert list(run["forward.name"].values) == ["step 0", "step 1", "step 2"]
    assert list(run["forward.nothing"].values) == [None] * 3
    assert run["forward.array"].values.dtype == np.uint16


def test_what_does_not_change_is_stored_once(tmp_path: Path) -> None:
    net = nn.Linear(1000, 1000)
    with insitu.record_run(net, only="weight", keep="values", to=tmp_path / "run.h5"):
        for _ in range(20):
            net(torch.ones(1, 1000))
    assert (tmp_path / "run.h5").stat().st_size < 3 * net.weight.nbytes
    series = insitu.load(tmp_path / "run.h5")["weight"]
    assert series.steps.tolist() == list(range(20)) and series.values.shape == (20, 1000, 1000)


def test_gradients_without_an_optimizer_and_over_several_passes() -> None:
    net = nn.Linear(2, 1)
    with insitu.record_run(net, only="weight.grad", keep="values") as recorded:
        for _ in range(2):
            net.zero_grad()
            net(torch.ones(1, 2)).backward()
    assert recorded["weight.grad"].values.tolist() == [[[1, 1]], [[1, 1]]]


def test_a_wrapped_model_has_its_own_clean_paths() -> None:
    net = Net()
    wrapped = torch.optim.swa_utils.AveragedModel(net)
    inner = wrapped.module
    with insitu.record_run(wrapped, only=["encoder.0", "forward.x"], keep="values") as recorded:
        wrapped(torch.ones(3, 4))
    assert recorded.paths == ["forward.x", "encoder.0"] and inner is not net


def test_compiled_models_stay_compiled() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled = torch.compile(net, backend=backend)
    compiled(torch.ones(1, 2))
    before = len(graphs)
    with insitu.record_run(compiled, only=["forward", "0.weight"], keep="values") as recorded:
        for _ in range(3):
            compiled(torch.ones(1, 2))
    assert len(graphs) == before
    assert recorded["0.weight"].values.shape == (3, 2, 2)


@pytest.mark.filterwarnings("ignore:`torch.jit.script")
def test_a_compiled_optimizer_stays_compiled_and_its_steps_are_written() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    step = torch.compile(lambda: optimizer.step(), backend=backend)

    def train_once() -> None:
        optimizer.zero_grad()
        net(torch.ones(1, 2)).sum().backward()
        step()

    train_once()
    before = len(graphs)
    with insitu.record_run(net, only=["weight", "weight.grad"], keep="values") as recorded:
        for _ in range(2):
            train_once()
            assert recorded["weight"].values[-1].tolist() == net.weight.tolist()
    assert len(graphs) == before and recorded["weight.grad"].steps.tolist() == [0, 1] and recorded.run.complete


class Labelled(nn.Module):
    """As models of transformers do: the loss is None until there is one."""

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor | None]:
        loss = None
        if labels is not None:
            loss = (x - labels).square().mean()
        return {"loss": loss, "logits": x}


@pytest.mark.parametrize("keep", ["values", "stats"])
def test_a_name_that_is_none_until_it_is_bound_is_one_variable(keep: str, tmp_path: Path) -> None:
    net = Labelled()
    with insitu.record_run(net, only="forward.*", keep=keep, to=tmp_path / "run.h5"):
        for labels in (None, torch.zeros(3), torch.zeros(3)):
            net(torch.ones(3), labels)
    with insitu.load(tmp_path / "run.h5") as run:
        loss = "forward.loss" if keep == "values" else "forward.loss.mean"
        assert run[loss].values.tolist() == [1, 1] and run[loss].steps.tolist() == [1, 2]
        assert not any(value is None for path in run for value in run[path]) and "forward.loss@json" not in run
        assert {path.split(".")[1] for path in run} == {"x", "labels", "loss"}


def test_what_is_none_or_a_number_beside_tensors_is_kept() -> None:
    net = Labelled()
    with insitu.record_run(net, only="forward.labels", keep="values") as recorded:
        for labels in (None, 0.5, torch.zeros(3)):
            net(torch.ones(3), labels)
    assert list(recorded.run) == ["forward.labels@json", "forward.labels"]
    assert list(recorded["forward.labels@json"]) == [None, 0.5]


def test_what_only_ever_was_none_is_kept() -> None:
    net = Labelled()
    with insitu.record_run(net, only="forward.loss", keep="values") as recorded:
        net(torch.ones(3))
    assert set(recorded["forward.loss"].values) == {None}


def test_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSITU", "0")
    net = nn.Linear(1, 1)
    with insitu.record_run(net, only="weight", keep="values", to=tmp_path / "run.h5"):
        net(torch.ones(1, 1))
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_no_trouble_when_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INSITU", "0")
    (tmp_path / "run.h5").write_bytes(b"mine")
    net = nn.Linear(1, 1)
    for to in (tmp_path / "run.h5", tmp_path / "nowhere" / "run.h5"):
        with insitu.record_run(net, only="weight", keep="values", to=to):
            net(torch.ones(1, 1))
    assert (tmp_path / "run.h5").read_bytes() == b"mine"


def test_what_was_not_recorded_because_it_was_switched_off_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    with insitu.record_run(nn.Linear(1, 1), only="weight", keep="values") as recorded:
        assert recorded.paths == [] and str(recorded) == "<LiveRun: 0 paths, 0 steps>"
    with pytest.raises(insitu.SubjectError, match="INSITU=0"):
        recorded["weight"]


def test_values_that_a_function_was_given_are_not_kept() -> None:
    net = nn.Linear(1, 1)
    with insitu.record_run(net, only="weight", to=lambda path, value, step, rank: None) as recorded:
        net(torch.ones(1, 1))
    assert str(recorded) == "<LiveRun: 1 paths, 1 steps>"
    with pytest.raises(insitu.SubjectError, match="given as `to` has received the values"):
        recorded["weight"]


@dataclass
class Output:
    logits: Tensor
    aux: list[Tensor]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Output:
        return Output(logits=self.lin(x), aux=[x.sum(), x.mean()])


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.lstm = Inner(), nn.BatchNorm1d(4), nn.LSTM(4, 4)
        self.scale = nn.Parameter(torch.ones(1))

    def split(self, x: Tensor) -> dict[str, Tensor]:
        return {"low": x - 1, "high": x + 1}

    def forward(self, x: Tensor) -> dict[str, Any]:
        found = self.inner(self.norm(x))
        both = self.split(found.logits * self.scale)
        return {"loss": self.lstm(both["low"])[0].sum(), "nest": {"q": both["high"]}}


GRADIENTS = {f"inner.lin.{name}.grad" for name in ("weight", "bias")} | {"norm.weight.grad", "norm.bias.grad"}
GRADIENTS |= {f"lstm.{kind}_{of}_l0.grad" for kind in ("weight", "bias") for of in ("ih", "hh")} | {"scale.grad"}


@pytest.mark.parametrize(
    ("only", "paths"),
    [
        ("forward.loss", {"forward.loss"}),
        ("forward.nest", {"forward.nest.q"}),
        ("forward.nest.q", {"forward.nest.q"}),
        ("inner.logits", {"inner.logits"}),
        ("inner.forward.logits", {"inner.forward.logits"}),
        ("inner.aux.*", {"inner.aux.0", "inner.aux.1"}),
        ("**.logits", {"inner.logits"}),
        ("**.loss", {"forward.loss"}),
        ("lstm.0", {"lstm.0"}),
        ("lstm.forward.1.0", {"lstm.forward.1.0"}),
        ("split.high", {"split.high"}),
        (("inner", "inner.logits"), {"inner.logits", "inner.aux.0", "inner.aux.1"}),
        ("**.grad", GRADIENTS),
        ("*.grad", {"scale.grad"}),
        ("norm.*.grad", {"norm.weight.grad", "norm.bias.grad"}),
    ],
)
def test_items_of_outputs_and_gradients_have_paths(only: str | tuple[str, ...], paths: set[str]) -> None:
    net = Outer()
    with insitu.record_run(net, only=only, keep="values") as recorded:
        for _ in range(2):
            net(torch.randn(3, 4))["loss"].backward()
    assert set(recorded.paths) == paths
    assert all(recorded[path].steps.tolist() == [0, 1] for path in recorded.paths)


@pytest.mark.parametrize("only", ["forward.**", ("forward.found", "forward.found.logits", "forward.found.aux.*")])
def test_what_several_patterns_name_is_taken_once(only: Any) -> None:
    net = Outer()
    with insitu.record_run(net, only=only, keep="values") as recorded:
        net(torch.randn(3, 4))
    assert recorded["forward.found.aux.0"].calls.tolist() == [0] == recorded["forward.found.logits"].calls.tolist()


class Recurrent(nn.Module):
    """A model with a module of torch that has methods of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        weight = x.mean()
        return self.lstm(x)[0] * weight


def test_any_path_does_not_lead_into_the_code_of_torch(tmp_path: Path) -> None:
    net = Recurrent()
    with insitu.record_run(net, only=["**.weight", "**.input"], keep="values", to=tmp_path / "run.h5") as recorded:
        net(torch.randn(3, 2, 4))
    assert recorded.paths == ["forward.weight", "lstm.forward.input"]
    with pytest.raises(insitu.PatternError, match="nothing in the model has the path"):
        insitu.record_run(net, only="**.weights_changed", keep="values")


@pytest.mark.parametrize(
    ("only", "nearest"),
    [
        ("loss", "forward.loss"),
        ("forward.los", "forward.loss"),
        ("inner.forward.logit", "inner.forward.logits"),
        ("norm.running_mean.grad", "norm.running_mean"),
        ("inner.3", "inner"),  # it has submodules: the number is meant as one of them
    ],
)
def test_an_item_that_nothing_has_is_refused(only: str, nearest: str) -> None:
    refused = pytest.raises(insitu.PatternError, match=f"did you mean '{nearest}'")
    with refused, insitu.record_run(Outer(), only=only, keep="values"):
        pass


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"only": "forward.hh"}, insitu.PatternError, "did you mean 'forward.h'"),
        ({"only": "encoder.0.wieght"}, insitu.PatternError, "did you mean 'encoder.0.weight'"),
        ({"every": 0}, insitu.ChoiceError, "every=0"),
        ({"when": "trian"}, insitu.ChoiceError, "did you mean 'train'"),
        ({"keep": {"**": "valeus"}}, insitu.ChoiceError, "did you mean 'values'"),
        ({"keep": "value"}, insitu.ChoiceError, "did you mean 'values'"),
        ({"keep": {"**": "stats", "head": "values"}}, insitu.ChoiceError, "put .* last"),
        ({"to": "run.txt"}, insitu.ChoiceError, "unknown output format '.txt'"),
        ({"to": "run.h5", "compression": "zip"}, insitu.ChoiceError, "zip"),
    ],
)
def test_bad_input(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        insitu.record_run(Net(), **{"only": "forward", **options})


def test_a_model_is_needed_and_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    with pytest.raises(insitu.SubjectError, match=r"needs a torch\.nn\.Module, or nothing, got 3"):
        insitu.record_run(3)  # type: ignore[arg-type]
    (tmp_path / "run.h5").write_text("mine")
    with pytest.raises(insitu.StoreError):
        insitu.record_run(Net(), only="forward", to=tmp_path / "run.h5")
    assert (tmp_path / "run.h5").read_text() == "mine"
    net = Net()
    with insitu.record_run(net, only="forward", to=tmp_path / "run.h5", overwrite=True):
        net(torch.ones(3, 4))
    assert insitu.load(tmp_path / "run.h5").paths == ["forward"]


def test_patterns_that_named_nothing_are_told(tmp_path: Path) -> None:
    net = Net()
    told = pytest.warns(insitu.InsituWarning, match=r"nothing was recorded at 'head.weight.grad'")
    with told, insitu.record_run(net, only=["forward", "head.weight.grad"], keep="values"):
        net(torch.ones(3, 4))
    with (
        pytest.warns(insitu.InsituWarning, match="was not called"),
        insitu.record_run(net, only="forward", keep="values"),
    ):
        pass
    told = pytest.warns(
        insitu.InsituWarning, match=r"keep has 'haed', where nothing was recorded \(did you mean 'head'"
    )
    with told, insitu.record_run(net, only=["forward", "head"], keep={"haed": "stats", "**": "values"}):
        net(torch.ones(3, 4))


def test_a_function_given_as_keep_or_to_that_raises_does_not_stop_the_run() -> None:
    net = Net()

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    with (
        pytest.warns(insitu.InsituWarning, match="broken"),
        insitu.record_run(net, only="forward", keep="values", to=broken),
    ):
        train(net, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insitu.record_run(
            net, only=["forward", "forward.x"], keep={"forward": broken, "**": "values"}, every=1
        ) as recorded:
            train(net, 3)
    assert recorded["forward.x"].values.shape == (3, 3, 4)


def test_a_sink_of_ones_own() -> None:
    net, taken = Net(), []
    with insitu.record_run(net, only="forward.x", to=lambda *item: taken.append(item)):
        inputs = train(net, 2)
    assert [(path, step, rank) for path, _, step, rank in taken] == [("forward.x", 0, 0), ("forward.x", 1, 0)]
    assert torch.equal(taken[1][1], inputs[1])


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_lost_when_the_loop_ends_early(error: type[BaseException], tmp_path: Path) -> None:
    net = Net()
    with pytest.raises(error), insitu.record_run(net, only="forward.x", to=tmp_path / "run.h5"):
        train(net, 3)
        raise error
    assert insitu.load(tmp_path / "run.h5")["forward.x"].steps.tolist() == [0, 1, 2]


PROGRAM = """
import os, signal, sys, time, torch, insitu
from torch import nn
net = nn.Linear(4, 2)
with insitu.record_run(net, only=["forward.input", "weight"], keep="values", to=sys.argv[1]) as recorded:
    for step in range(1000):
        with torch.no_grad():
            net(torch.full((3, 4), float(step)))
        if step == 50:
            print("ready", flush=True)
            time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_from_outside_is_readable(number: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    path = tmp_path / "run.h5"
    with subprocess.Popen([sys.executable, tmp_path / "program.py", path], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        during = insitu.load(path)
        assert during["forward.input"].steps.tolist() == during["weight"].steps.tolist() == list(range(51))
        child.send_signal(number)
        assert child.wait(30) == -number
    run = insitu.load(path)
    assert run["forward.input"].steps.tolist() == run["weight"].steps.tolist() == list(range(51))
    assert run["forward.input"].values[:, 0, 0].tolist() == [float(step) for step in range(51)]


RANKS = """
import os, sys, torch, insitu
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(0)
dist.init_process_group("gloo")
rank, mode = dist.get_rank(), sys.argv[2]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 2)
    def forward(self, x):
        h = self.encoder(x)
        return h
net = Net()
model = DDP(net) if mode == "ddp" else net
optimizer = torch.optim.SGD(model.parameters(), 0.1)
steps = 4 if mode == "ddp" else 4 + 3 * rank
try:
    only = ["forward.x", "forward.h", "encoder.weight", "encoder.weight.grad"]
    with insitu.record_run(model, only=only, keep="values", to=sys.argv[1]):
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.full((3, 4), 10.0 * rank + step)).sum().backward()
            optimizer.step()
            if mode == "raise" and rank == 1 and step == 2:
                raise ValueError("rank 1 fails")
            if mode == "kill" and rank == 1 and step == 2:
                os._exit(3)
except ValueError:
    pass
if mode == "ddp":
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("mode", ["ddp", "uneven", "raise", "kill"])
def test_ranks_write_for_themselves_and_are_merged(mode: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(RANKS))
    path = tmp_path / "run.h5"
    began = time.monotonic()
    children = launched(tmp_path, str(path), mode)
    for child in children:
        child.communicate(timeout=100)
    assert time.monotonic() - began < 55  # nobody waited for who never came
    run = insitu.load(path)
    series = run["forward.x"]
    counts = {"ddp": (4, 4), "uneven": (4, 7), "raise": (4, 3), "kill": (4, 3)}[mode]
    assert [int((series.ranks == rank).sum()) for rank in range(2)] == list(counts)
    assert series.rank(1).values[:, 0, 0].tolist() == [10.0 + step for step in range(counts[1])]
    if mode == "ddp":
        one, other = run["encoder.weight.grad"].rank(0).values, run["encoder.weight.grad"].rank(1).values
        assert np.array_equal(one, other)  # as the optimizer found them, after they were reduced


def port(path: Path) -> str:
    """A port for the processes of one test."""
    return str(20000 + abs(hash(str(path))) % 20000)


def test_gradients_of_a_step_that_runs_the_backward_pass_itself() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def closure() -> Tensor:
        loss: Tensor = net(torch.ones(1, 2)).sum()
        loss.backward()
        return loss

    with insitu.record_run(net, only="weight.grad", keep="values") as recorded:
        for _ in range(2):
            recorded.step()
            optimizer.zero_grad()
            closure()
            optimizer.step(closure)  # type: ignore[arg-type]
    assert recorded["weight.grad"].steps.tolist() == [0, 1]
    assert recorded["weight.grad"].values[:, 0, 0].tolist() == [2, 2]


def test_a_variable_wherever_it_is() -> None:
    net = Net()
    with insitu.record_run(net, only="**.w", keep="values") as recorded:
        net(torch.ones(3, 4))
    assert recorded.paths == ["helper.w"]


def test_what_comes_between_steps_is_in_none() -> None:
    net = Net()
    with insitu.record_run(net, only="forward.x", keep="values") as recorded:
        recorded.step(10)
        net(torch.ones(3, 4))
        recorded.end_step()
        net(torch.zeros(3, 4))
        recorded.step()
        net(torch.ones(3, 4))
    assert recorded["forward.x"].steps.tolist() == [10, 11]


def test_two_recordings_of_one_method_that_end_in_either_order() -> None:
    net, one, two = Net(), [], []
    original = vars(Net)["helper"]
    first = insitu.record_run(net, only="helper", keep="values", to=lambda *item: one.append(item))
    second = insitu.record_run(net, only="helper", keep="values", to=lambda *item: two.append(item))
    first.__enter__()
    second.__enter__()
    net(torch.ones(3, 4))
    first.__exit__(None, None, None)
    net(torch.ones(3, 4))
    second.__exit__(None, None, None)
    assert (len(one), len(two)) == (1, 2) and vars(Net)["helper"] is original


def test_another_model_of_the_same_class_is_another_one() -> None:
    student = Net()
    teacher = copy.deepcopy(student)
    with insitu.record_run(student, only=["forward.h", "helper.w", "helper"], keep="values") as recorded:
        for _ in range(2):
            student(torch.ones(3, 4))
            teacher(torch.zeros(3, 4))
    assert recorded["helper.w"].steps.tolist() == recorded["helper"].steps.tolist() == [0, 1]
    assert len(recorded["forward.h"].steps) == 8


class Child(Net):
    def forward(self, x: Tensor) -> Tensor:
        h = super().forward(x)
        return h


def test_the_forward_of_a_parent_is_not_that_of_the_child() -> None:
    model = nn.Sequential(Child(), nn.Linear(2, 4), Net())
    with insitu.record_run(model, only=["0.forward.h", "2.forward.h"], keep="values") as recorded:
        model(torch.ones(3, 4))
    assert (len(recorded["0.forward.h"].steps), len(recorded["2.forward.h"].steps)) == (1, 4)


class Decorated(nn.Module):
    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        hidden = x + 1
        return hidden


def test_variables_of_a_decorated_method() -> None:
    model = Decorated()
    with insitu.record_run(model, only="forward.hidden", keep="values") as recorded:
        model(torch.ones(2))
    assert recorded["forward.hidden"].values.tolist() == [[2, 2]]


class Odd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        names = np.array(["a", None], dtype=object)
        return x + len(names)


def test_one_value_that_cannot_be_stored_does_not_take_the_others_along() -> None:
    model = Odd()
    told = pytest.warns(insitu.InsituWarning, match=r"forward\.names")
    with told, insitu.record_run(model, only=["forward", "forward.names"], keep="values") as recorded:
        model(torch.ones(2))
        model(torch.ones(2))
    assert recorded["forward"].steps.tolist() == [0, 1]


def test_a_forked_child_leaves_the_recording_to_its_parent(tmp_path: Path) -> None:
    program = """
import multiprocessing, os, signal, sys, torch, insitu
net = torch.nn.Linear(2, 1)
with insitu.record_run(net, only="forward.input", to=sys.argv[1]):
    net(torch.ones(1, 2))
    for _ in range(10):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(abs, [1, 2])
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    if not (child := os.fork()):
        os._exit(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
    assert os.waitpid(child, 0)[1] == 0
    net(torch.ones(1, 2))
"""
    (tmp_path / "program.py").write_text(program)
    path = tmp_path / "run.h5"
    command = [sys.executable, "-W", "ignore", str(tmp_path / "program.py"), str(path)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    run = insitu.load(path)
    assert run.complete and run["forward.input"].steps.tolist() == [0, 1]


def test_forked_child_that_trains_says_nothing(tmp_path: Path) -> None:
    program = """
import os, sys, torch, insitu

def train(net, optimizer):
    loss = net(torch.ones(1, 2)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
with insitu.record_run(net, only=["weight", "weight.grad", "train.loss"], to=sys.argv[1]):
    train(net, optimizer)
    if not (child := os.fork()):
        train(net, optimizer)
        sys.stderr.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    train(net, optimizer)
"""
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, *WITHOUT_FORK_WARNING, str(tmp_path / "program.py"), str(tmp_path / "run.h5")]
    done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert done.stderr == ""
    run = insitu.load(tmp_path / "run.h5")
    assert run.complete and run["train.loss"].steps.tolist() == run["weight.grad"].steps.tolist() == [0, 1]


def test_a_run_that_goes_on_is_not_overwritten(tmp_path: Path) -> None:
    net, path = Net(), tmp_path / "run.h5"
    with insitu.record_run(net, only="forward.x", to=path):
        net(torch.ones(3, 4))
        other = insitu.record_run(net, only="forward", to=path, overwrite=True)
        with pytest.raises(insitu.StoreError, match="another run is writing"):
            other.__enter__()
        net(torch.ones(3, 4))
    assert insitu.load(path)["forward.x"].steps.tolist() == [0, 1]


def test_the_model_is_let_go() -> None:
    net = Net()
    gone = weakref.ref(net)
    with insitu.record_run(net, only=["forward.x", "head.weight.grad"], keep="values") as recorded:
        train(net, 1)
    del net
    gc.collect()
    assert gone() is None and recorded["forward.x"].values.shape == (1, 3, 4)


def test_calls_of_several_threads_at_a_time_lose_nothing() -> None:
    net = Net().eval()
    with insitu.record_run(net, only=["forward.x", "head"], keep="values") as recorded:
        threads = [threading.Thread(target=lambda: [net(torch.ones(3, 4)) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(recorded["head"].steps) == 80


def test_everything_of_every_method_has_an_end() -> None:
    net = Net()
    with insitu.record_run(net, only="**.forward.**", keep="values") as recorded:
        net(torch.ones(3, 4))
    assert "forward.h" in recorded.paths


class Outputs(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"loss": x.sum(), "logits": x * 2}


def test_items_of_an_output_may_be_kept_in_another_way() -> None:
    model = Outputs()
    with insitu.record_run(model, only="forward", keep={"forward.logits": "stats", "**": "values"}) as recorded:
        model(torch.ones(3))
    assert recorded["forward.loss"].values.tolist() == [3] and recorded["forward.logits.mean"].values[0] == 2
    assert "forward.loss" in recorded and len(recorded) > 2


class Mixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_values_of_a_second_dtype_have_a_name_of_their_own_and_are_told() -> None:
    model = Mixed()
    with insitu.record_run(model, only="forward", keep="values") as recorded:
        model(torch.ones(2))
        model(torch.ones(2, dtype=torch.float64))
    with pytest.warns(insitu.InsituWarning, match="'forward@float64'"):
        assert recorded["forward"].steps.tolist() == [0]
    assert recorded["forward@float64"].steps.tolist() == [1]


def test_a_tensor_too_large_for_a_step_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("insitu.capture.values.step_values.MOST_BYTES", 100)
    net = Net()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with insitu.record_run(net, only=["forward.x", "head.bias"], keep="values") as recorded:
            for _ in range(2):
                net(torch.ones(30, 4))
    assert "'forward.x'" in str(told[0].message) and "keep='stats'" in str(told[0].message)
    assert "'forward.x'" in recorded.run.missing[0] and not recorded.run.complete
    assert recorded["head.bias"].steps.tolist() == [0, 1] and "forward.x" not in recorded


SHARDED = """
import sys, torch, insitu
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
mesh = init_device_mesh("cpu", (2,))
for layer in (net[0], net[2], net):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
with insitu.record_run(net, only=["forward", "0.weight", "0.weight.grad"], keep="values", to=sys.argv[1]):
    for step in range(3):
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
torch.save(net[0].weight.to_local().detach(), f"{sys.argv[1]}.{dist.get_rank()}")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_sharded_parameters_are_recorded_as_the_shards_they_are(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SHARDED)
    path = tmp_path / "run.h5"
    children = launched(tmp_path, str(path))
    for child in children:
        child.communicate(timeout=100)
    assert [child.returncode for child in children] == [0, 0]
    series = insitu.load(path)["0.weight"]
    assert series.values.shape == (6, 2, 4) and series.facts["global_shape"] == [4, 4]
    for rank in range(2):
        shard = torch.load(f"{path}.{rank}")
        assert np.array_equal(series.rank(rank).values[-1], shard.numpy())


def launched(folder: Path, *arguments: str) -> list[subprocess.Popen[str]]:
    """Two processes that run the program in a folder."""
    children = []
    for rank in range(2):
        ranks = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port(folder)}
        command = [sys.executable, "-W", "ignore", str(folder / "program.py"), *arguments]
        children.append(subprocess.Popen(command, env={**os.environ, **ranks}, stderr=subprocess.PIPE, text=True))
    return children


def test_a_model_whose_parameters_are_not_made_yet() -> None:
    model = nn.Sequential(nn.LazyLinear(2))
    with insitu.record_run(model, only=["0", "0.weight"], keep="values") as recorded:
        model(torch.ones(3, 4))
    assert recorded["0"].values.shape == (1, 3, 2) and recorded["0.weight"].values.shape == (1, 2, 4)


def test_an_output_that_contains_itself() -> None:
    class Knot(nn.Module):
        def forward(self, x: Tensor) -> list[Any]:
            found: list[Any] = [x]
            found.extend([found] * 50)
            return found

    model = Knot()
    with insitu.record_run(model, only=["forward"], keep="values") as recorded:
        model(torch.ones(3))
    assert recorded["forward.0"].values.shape == (1, 3)
    assert 1 < len(recorded) <= 1000


def test_what_holds_too_many_values_says_so_once() -> None:
    class Many(nn.Module):
        def forward(self, x: Tensor) -> list[dict[str, Tensor]]:
            return [{f"t{j}": x + j for j in range(60)} for _ in range(20)]

    model = Many()
    told = pytest.warns(insitu.InsituWarning, match="not all of 'forward' is recorded: .* more than 1,000 values")
    with told as warned, insitu.record_run(model, only=["forward"], keep="values") as recorded:
        model(torch.ones(1))
        model(torch.ones(1))
    assert (len(recorded), len(warned)) == (1000, 1)


def test_what_is_switched_off_keeps_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    model = Net()
    alive = weakref.ref(model)
    with insitu.record_run(model, keep="values") as recorded:
        model(torch.ones(2, 4))
    del model
    gc.collect()
    assert alive() is None and recorded is not None


def test_an_interrupt_while_it_is_entered_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, run = Net(), tmp_path / "run.h5"
    with monkeypatch.context() as interrupted:
        interrupted.setattr("insitu.session.run_entry.Termination", lambda *works: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt), insitu.record_run(model, keep="values", to=run):
            raise AssertionError("it was entered")
    assert list(tmp_path.iterdir()) == []
    with insitu.record_run(model, only=["forward"], keep="values", to=run):
        model(torch.ones(2, 4))
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]


def test_an_interrupt_while_it_is_left_tells_where_the_run_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, run = Net(), tmp_path / "run.h5"
    alive, undo = weakref.ref(model), RunEntry.stop

    def interrupted(self: RunEntry, error: BaseException | None) -> None:
        signal.raise_signal(signal.SIGINT)
        undo(self, error)

    monkeypatch.setattr(RunEntry, "stop", interrupted)
    told = pytest.warns(
        insitu.InsituWarning, match=r"run\.h5 was not written: .*\.parts; merge them with `insitu recover .*run\.h5`"
    )
    with (
        told,
        pytest.raises(KeyboardInterrupt),
        insitu.record_run(model, keep="values", only="forward", to=run) as recorded,
    ):
        model(torch.ones(2, 4))
    assert len(recorded["forward"].values) == 1
    del model
    gc.collect()
    assert alive() is None


def test_gradients_that_no_optimizer_has_read_are_not_lost() -> None:
    """Those of a closure, and of an update that was left out because they are not finite."""
    net, x = nn.Linear(2, 1), torch.randn(4, 2)
    lbfgs, sgd = torch.optim.LBFGS(net.parameters(), max_iter=3), torch.optim.SGD(net.parameters(), 0.1)

    def closure() -> Tensor:
        lbfgs.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        return loss

    with insitu.record_run(net, only=["weight", "weight.grad"], keep="values") as recorded:
        for _ in range(2):
            lbfgs.step(closure)  # type: ignore[no-untyped-call]
        for is_left_out in (False, True, False):
            sgd.zero_grad()
            (net(x).sum() * (float("inf") if is_left_out else 1.0)).backward()
            if not is_left_out:
                sgd.step()
    gradients = recorded["weight.grad"]
    assert gradients.steps.tolist() == recorded["weight"].steps.tolist()
    assert np.isfinite(gradients.values).all(axis=(1, 2)).tolist() == [True] * (len(gradients) - 2) + [False, True]


def test_a_recording_that_is_entered_again_refuses_the_file_at_once(tmp_path: Path) -> None:
    net = nn.Linear(1, 1)
    recording = insitu.record_run(net, only="weight", to=tmp_path / "run.h5")
    with recording:
        net(torch.ones(1, 1))
    with pytest.raises(insitu.StoreError, match="there already"):
        recording.__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]


def test_child_of_a_fork_leaves_the_temporary_folder_of_its_parent() -> None:
    program = """if True:
        import os, sys, torch, insitu
        model = torch.nn.Linear(2, 2)
        with insitu.record_run(model, keep="values") as recorded:
            model(torch.ones(1, 2))
        if (child := os.fork()) == 0:
            sys.exit()
        os.waitpid(child, 0)
        print(recorded["forward"].values.shape)
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.stdout == "(1, 1, 2)\n", done.stderr


def test_warning_names_where_the_missing_values_are_listed(tmp_path: Path) -> None:
    class Long(nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [x] * 1_001

    for to, place in ((None, "; `live.run.missing` names"), (tmp_path / "run.h5", "; `run.missing` names")):
        model = Long()
        with warnings.catch_warnings(record=True) as caught, insitu.record_run(model, only="forward", to=to) as live:
            warnings.simplefilter("always")
            model(torch.ones(1))
        assert live.run.missing
        assert place in str(caught[0].message)
