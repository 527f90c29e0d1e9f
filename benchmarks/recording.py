"""Recording a training run: a step of about 6 ms, with few and with many values, against the same loop alone."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import torch
from torch import nn

import insitu
from benchmarks.measure import Case, Effort, Row, at_least, at_most, in_turn

STEPS = 20


class Layer(nn.Module):
    """A layer with a variable."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        mean = x.mean()
        return torch.relu(self.linear(x)) * self.scale[0] - mean


class Net(nn.Module):
    """Many small layers."""

    def __init__(self, layers: int = 8, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All layers."""
        for layer in self.layers:
            x = layer(x)
        return x


def training(layers: int, width: int, batch: int) -> tuple[nn.Module, Any]:
    """A model, and a function that trains it for some steps."""
    model = Net(layers, width)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    data = torch.randn(batch, width)

    def steps(number: int = STEPS) -> None:
        for _ in range(number):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

    return model, steps


def train(model: nn.Module, optimizer: Any, data: torch.Tensor, number: int = STEPS) -> None:
    """A training loop with variables of its own."""
    for _ in range(number):
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        value = loss.item()
    assert value >= 0


def loops(effort: Effort) -> Iterator[Row]:
    """Two variables of the training loop: of a function that is rewritten, and of a block, which is followed."""
    model = Net(8, 256)
    optimizer, data = torch.optim.SGD(model.parameters(), 1e-3), torch.randn(128, 256)
    steps = partial(train, model, optimizer, data)

    def block() -> None:
        with insitu.record_run(model, only=["loss", "value"], to=lambda *values: None):
            for _ in range(STEPS):
                optimizer.zero_grad()
                loss = model(data).square().mean()
                loss.backward()
                optimizer.step()
                value = loss.item()
        assert value >= 0

    with tempfile.TemporaryDirectory() as folder:
        session = Recorded(model, ["train.loss", "train.value"], "values", Path(folder))
        function = Case(steps, before=session.start, after=session.stop)
        cases = {"alone": Case(steps), "function": function, "block": Case(block)}
        times = in_turn(cases, effort.repeats(20))
    yield Row(
        "recording two variables of the training loop, in a function / alone",
        times.ratio("function", "alone"),
        at_most(1.07),
    )
    yield Row("recording two variables of the training loop, in a block / alone", times.ratio("block", "alone"))


def rows(effort: Effort) -> Iterator[Row]:
    """Each way of recording against none."""
    yield from loops(effort)
    yield from recorded(
        effort, "two small variables", (8, 256, 128), ["layers.0.forward.mean", "layers.1.forward.mean"], 1.05
    )
    yield from recorded(effort, "8 tensors of 0.8 MB in all", (8, 256, 100), ["layers.*"], 1.20)
    many = ["layers.*.forward.mean", "layers.*.scale", "layers.*.scale.grad", "layers.*.linear.bias"]
    yield from recorded(effort, "200 small tensors", (50, 64, 64), many, None)
    yield original(effort, (50, 64, 64), many)
    yield from recorded(effort, "statistics of every module", (8, 256, 128), ["**"], 1.3, keep="stats")


def original(effort: Effort, size: tuple[int, int, int], only: list[str]) -> Row:
    """The way of TensorTracer for 200 small tensors, alone: each is appended to a dataset of HDF5."""
    model, steps = training(*size)
    layers = list(model.layers)  # type: ignore[arg-type]
    files: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:

        def open_file() -> None:
            files.append(h5py.File(Path(folder) / f"{time.monotonic_ns()}.h5", "w"))

        def appended() -> None:
            for _ in range(STEPS):
                steps(1)
                for number, layer in enumerate(layers):
                    taken = (layer.scale, layer.scale.grad, layer.linear.bias, layer.scale[0])
                    for name, value in zip(("scale", "grad", "bias", "mean"), taken, strict=True):
                        append(files[-1], f"{number}.{name}", value.detach().numpy())

        session = Recorded(model, only, "values", Path(folder))
        times = in_turn(
            {
                "alone": Case(steps),
                "recorded": Case(steps, before=session.start, after=session.stop),
                "original": Case(appended, before=open_file, after=lambda: files.pop().close()),
            },
            effort.repeats(10),
        )
    less = times.overhead("original", "recorded", "alone")
    return Row("recording 200 small tensors, one by one with h5py / insitu, by overhead", less, at_least(5))


def append(file: Any, name: str, value: Any) -> None:
    """Add a value to the end of a dataset."""
    if name not in file:
        file.create_dataset(name, (0, *value.shape), value.dtype, maxshape=(None, *value.shape))
    data = file[name]
    data.resize(len(data) + 1, 0)
    data[-1] = value


class Recorded:
    """Sessions that are started before a time is taken, and ended after."""

    def __init__(self, model: nn.Module, only: list[str], keep: str, folder: Path) -> None:
        self._options: Any = {"only": only, "keep": keep}
        self._model, self._folder = model, folder
        self._session: Any = None

    def start(self) -> None:
        """Begin."""
        self._session = insitu.record_run(self._model, to=self._folder / f"{time.monotonic_ns()}.h5", **self._options)
        self._session.__enter__()

    def stop(self) -> None:
        """End."""
        self._session.__exit__(None, None, None)


def recorded(
    effort: Effort, name: str, size: tuple[int, int, int], only: list[str], limit: float | None, keep: str = "values"
) -> Iterator[Row]:
    """One way of recording."""
    model, steps = training(*size)
    with tempfile.TemporaryDirectory() as folder:
        session = Recorded(model, only, keep, Path(folder))
        case = Case(steps, before=session.start, after=session.stop)
        times = in_turn({"alone": Case(steps), "recorded": case}, effort.repeats(20))
    step = sorted(times.seconds["alone"])[len(times.seconds["alone"]) // 2] / STEPS
    target = at_most(limit) if limit is not None else None
    yield Row(
        f"recording {name} / alone", times.ratio("recorded", "alone"), target, note=f"a step of {step * 1e3:.1f} ms"
    )
