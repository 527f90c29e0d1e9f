"""Recording a training run: a step of about 6 ms, with few and with many values, against the same loop alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import insitu
from benchmarks.measure import Case, Effort, Row, at_most, in_turn

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

    def steps() -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()

    return model, steps


def rows(effort: Effort) -> Iterator[Row]:
    """Each way of recording against none."""
    yield from recorded(
        effort, "two small variables", (8, 256, 128), ["layers.0.forward.mean", "layers.1.forward.mean"], 1.05
    )
    yield from recorded(effort, "8 tensors of 0.8 MB in all", (8, 256, 100), ["layers.*"], 1.20)
    many = ["layers.*.forward.mean", "layers.*.scale", "layers.*.scale.grad", "layers.*.linear.bias"]
    yield from recorded(effort, "200 small tensors", (50, 64, 64), many, None)
    yield from recorded(effort, "statistics of every module", (8, 256, 128), ["**"], 1.3, keep="stats")


def recorded(
    effort: Effort, name: str, size: tuple[int, int, int], only: list[str], limit: float | None, keep: str = "values"
) -> Iterator[Row]:
    """One way of recording."""
    model, steps = training(*size)
    folder = tempfile.TemporaryDirectory()
    sessions: list[Any] = []

    def start() -> None:
        path = Path(folder.name) / f"{len(list(Path(folder.name).iterdir()))}.h5"
        sessions.append(insitu.record(model, only=only, keep=keep, to=path))
        sessions[-1].__enter__()

    case = Case(steps, before=start, after=lambda: sessions.pop().__exit__(None, None, None))
    times = in_turn({"alone": Case(steps), "recorded": case}, effort.repeats(20))
    step = sorted(times.seconds["alone"])[len(times.seconds["alone"]) // 2] / STEPS
    target = at_most(limit) if limit is not None else None
    yield Row(
        f"recording {name} / alone", times.ratio("recorded", "alone"), target, note=f"a step of {step * 1e3:.1f} ms"
    )
    folder.cleanup()
