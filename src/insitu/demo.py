"""A small transformer, traced and shown in every view: what `insitu demo` and `make demo` run."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import insitu


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.c_attn(x).unflatten(-1, (3, self.heads, -1))
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = F.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        x = self.c_proj((weights @ v).transpose(1, 2).flatten(2))
        return x


class Block(nn.Module):
    """Attention and a small network, each with a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    """A language model of the usual shape, small enough to read."""

    def __init__(self, vocabulary: int = 256, width: int = 96, heads: int = 6, layers: int = 4) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(64, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        x = self.head(self.ln_f(x))
        return x


def normalized(x: Tensor, scale: dict[str, float]) -> Tensor:
    """A function with variables to watch."""
    x = x - x.mean(-1, keepdim=True)
    scale["std"] = x.std().item()
    x /= scale["std"] + scale["eps"]
    x = x.half()
    return x


def normalized_rows(x: Tensor) -> Tensor:
    """A function that forgets that a row may be zero."""
    lengths: Tensor = x.norm(dim=-1, keepdim=True)
    return x / lengths


def main() -> None:
    """Trace the model and show what the tool can do."""
    import os
    import tempfile

    torch.manual_seed(0)
    model, tokens = GPT(), torch.randint(256, (2, 24))

    title("tree", "with insitu.watch(model, keep='stats'): model(tokens)")
    with insitu.watch(model, keep="stats"):
        model(tokens)

    title("table", "insitu.show(trace, view='table')")
    with insitu.record(model, level="aten") as trace:
        model(tokens)
    insitu.show(trace, view="table")

    title("code", "insitu.show(trace, view='code', only='h.0.attn')")
    insitu.show(trace, view="code", only="h.0.attn")

    title("variables", "@insitu.watch('x')   # on a function: what goes in, how x changes, what comes out")
    insitu.watch("x", "scale.*")(normalized)(torch.arange(6.0).view(2, 3), {"eps": 1e-5})

    title("an error explains itself", "with insitu.record(model): model(torch.randint(256, (2, 70)))")
    try:
        with insitu.record(model):
            model(torch.randint(256, (2, 70)))
    except IndexError as error:
        print(insitu.explain(error))

    title("the first NaN is pinned", "with insitu.guard(): normalized_rows(torch.eye(4, 3))")
    try:
        with insitu.guard():
            normalized_rows(torch.eye(4, 3))
    except insitu.NonFiniteError as error:
        print(error)

    title("two runs are compared", "model.h[2].ln_1.eps = 1e-3; print(insitu.compare(before, after))")
    traces = []
    norm = model.get_submodule("h.2.ln_1")
    assert isinstance(norm, nn.LayerNorm)
    for norm.eps in (1e-5, 1e-3):
        with insitu.record(model, keep="stats") as trace:
            model(tokens)
        traces.append(trace)
    print(insitu.compare(*traces))

    title("a page to look at", "insitu.save(trace, 'demo.html')")
    page = os.path.join(tempfile.mkdtemp(prefix="insitu-"), "demo.html")
    insitu.save(traces[0], page)
    print(f"written to {page}: open it in a browser")


def title(name: str, code: str) -> None:
    """Print what comes next, and the code that makes it."""
    print(f"\n── {name} {'─' * max(0, 76 - len(name))}\n>>> {code}\n")
