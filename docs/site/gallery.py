"""The pages of the gallery, each made by a small program: a model, a NaN, two runs that differ, a training."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

import insitu
from insitu.demo import GPT

TOKENS = 24


def model(page: Path) -> None:
    """One training step of a transformer, with all values: its graph, its attention maps, its gradients."""
    network, tokens = GPT(), torch.randint(256, (2, TOKENS))
    with insitu.record(network, level="aten", keep="values") as trace:
        network(tokens).square().mean().backward()
    insitu.save(trace, page)


def first_nan(page: Path) -> None:
    """Four steps of training; before the third, a weight has grown so large that the scores overflow."""
    network, tokens = GPT(), torch.randint(256, (2, TOKENS + 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with insitu.record(keep="stats") as trace:
        for step in range(4):
            trace.step()
            if step == 2:
                network.get_parameter("h.2.attn.c_attn.weight").data *= 1e20
            loss = F.cross_entropy(network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    insitu.save(trace, page)


def difference(page: Path) -> None:
    """Two runs of a model: in the second, a LayerNorm has another epsilon."""
    network, tokens = GPT(), torch.randint(256, (2, TOKENS))
    with insitu.record(network, keep="values") as before:
        network(tokens)
    network.get_submodule("h.2.ln_1").eps = 1e-3
    with insitu.record(network, keep="values") as after:
        network(tokens)
    insitu.save(insitu.compare(before, after), page)


def training(page: Path) -> None:
    """The loss, the activations, the weights and the gradients of a training of 120 steps."""
    network, tokens = GPT(), torch.randint(256, (4, TOKENS + 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    paths = ["loss", "h.*.mlp", "h.*.attn", "**.weight.grad", "head.weight"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "training.h5"
        with insitu.record_run(network, only=paths, keep="stats", to=file):
            for _ in range(120):
                loss = F.cross_entropy(network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        insitu.save(insitu.load(file), page)


PAGES: dict[str, Callable[[Path], None]] = {
    "model.html": model,
    "nan.html": first_nan,
    "diff.html": difference,
    "training.html": training,
}


def make_page(name: str, folder: Path) -> Path:
    """Make one page of the gallery, the same each time."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # several threads are slower for a model this small
    page = folder / name
    PAGES[name](page)
    return page
