"""Fused and split forms, and layers written by hand: a correct port has nothing to report."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import insitu

WIDTH, LENGTH, HEADS = 12, 5, 3
Layer = Callable[[Tensor], Tensor]
Build = Callable[[], Layer]


def root_mean_square() -> Layer:
    norm = nn.RMSNorm(WIDTH, eps=1e-6)
    nn.init.uniform_(norm.weight)
    return norm


def root_mean_square_by_hand() -> Layer:
    norm = root_mean_square()
    weight: Tensor = norm.weight  # type: ignore[attr-defined]
    return lambda x: weight * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)


def layer_norm() -> Layer:
    return nn.LayerNorm(WIDTH)


def layer_norm_by_hand() -> Layer:
    norm = nn.LayerNorm(WIDTH)

    def forward(x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return centered / torch.sqrt(centered.square().mean(-1, keepdim=True) + 1e-5) * norm.weight + norm.bias

    return forward


def tanh_gelu() -> Layer:
    return nn.GELU(approximate="tanh")


def tanh_gelu_by_hand() -> Layer:
    return lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def exact_gelu() -> Layer:
    return F.gelu


def exact_gelu_by_hand() -> Layer:
    return lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


class Table(nn.Module):
    """A linear layer whose weight is transposed, as in GPT-2 of Hugging Face."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) * 0.2), nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


def tables() -> nn.Sequential:
    return nn.Sequential(Table(WIDTH, 20), nn.GELU(), Table(20, WIDTH))


def linears() -> Layer:
    weights = tables().state_dict()
    port = nn.Sequential(nn.Linear(WIDTH, 20), nn.GELU(), nn.Linear(20, WIDTH))
    port.load_state_dict({name: value.T if value.dim() == 2 else value for name, value in weights.items()})
    return port


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.value, self.down = nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.silu(self.gate(x)) * self.value(x))
        return out


def fused_gate() -> Layer:
    split, both = Gated(), nn.Linear(WIDTH, 32)
    with torch.no_grad():
        both.weight.copy_(torch.cat([split.gate.weight, split.value.weight]))
        both.bias.copy_(torch.cat([split.gate.bias, split.value.bias]))

    def forward(x: Tensor) -> Tensor:
        gate, value = both(x).chunk(2, dim=-1)
        out: Tensor = split.down(gate * torch.sigmoid(gate) * value)
        return out

    return forward


class SplitAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.heads(layer(x)) for layer in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


def fused_attention() -> Layer:
    split, qkv = SplitAttention(), nn.Linear(WIDTH, 3 * WIDTH)
    with torch.no_grad():
        qkv.weight.copy_(torch.cat([split.query.weight, split.key.weight, split.value.weight]))
        qkv.bias.copy_(torch.cat([split.query.bias, split.key.bias, split.value.bias]))

    def forward(x: Tensor) -> Tensor:
        q, k, v = qkv(x).reshape(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH).tril() == 0, float("-inf"))
        out: Tensor = split.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape))
        return out

    return forward


def tied() -> Layer:
    table = nn.Embedding(9, WIDTH)
    head = nn.Linear(WIDTH, 9, bias=False)
    head.weight = table.weight
    return lambda x: head(x + table(torch.arange(LENGTH)))


def tied_by_product() -> Layer:
    table = nn.Embedding(9, WIDTH)
    return lambda x: (x + table(torch.arange(LENGTH))) @ table.weight.T


PORTS: list[tuple[Build, Build]] = [
    (root_mean_square, root_mean_square_by_hand),
    (layer_norm, layer_norm_by_hand),
    (tanh_gelu, tanh_gelu_by_hand),
    (exact_gelu, exact_gelu_by_hand),
    (tables, linears),
    (Gated, fused_gate),
    (SplitAttention, fused_attention),
    (tied, tied_by_product),
]


def trace(build: Build, keep: str) -> insitu.Trace:
    torch.manual_seed(0)
    x = torch.randn(2, LENGTH, WIDTH)
    with insitu.record(keep=keep) as found:
        build()(x).sum(-1)
    return found


@pytest.mark.parametrize("keep", ["stats", "values"])
@pytest.mark.parametrize("builds", PORTS, ids=lambda builds: builds[1].__name__)
def test_correct_port_has_nothing_to_report(builds: tuple[Build, Build], keep: str) -> None:
    for a, b in (builds, builds[::-1]):
        diff = insitu.compare(trace(a, keep), trace(b, keep))
        assert diff.first is None and diff.passes and diff.agrees, str(diff)


class OwnBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.proj, self.fc, self.down = (
            nn.Linear(*sizes) for sizes in ((16, 48), (16, 16), (16, 64), (64, 16))
        )

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.ln_1(x)).split(16, dim=-1)
        q, k, v = (part.view(*x.shape[:2], 2, 8).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
        out: Tensor = x + self.down(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))
        return out


class OwnGPT2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(30, 16), nn.Embedding(12, 16)
        self.h = nn.ModuleList(OwnBlock() for _ in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(16), nn.Linear(16, 30, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        out: Tensor = self.lm_head(self.ln_f(x))
        return out


NAMES = {"transformer.": "", "attn.c_attn": "qkv", "attn.c_proj": "proj", "mlp.c_fc": "fc", "mlp.c_proj": "down"}


def port_of(model: nn.Module, keeps_square: bool) -> OwnGPT2:
    """The model of Hugging Face as an own one; with `keeps_square` a square weight is not transposed."""
    weights: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        is_table = value.dim() == 2 and name.split(".")[-2] in ("qkv", "proj", "fc", "down")
        is_square = value.dim() == 2 and value.shape[0] == value.shape[1]
        if is_table and not (keeps_square and is_square):
            value = value.T  # turn
        weights[name] = value
    port = OwnGPT2()
    port.load_state_dict(weights)
    return port


@pytest.mark.parametrize("keep", ["stats", "values"])
@pytest.mark.parametrize("keeps_square", [False, True], ids=["correct", "square weight not transposed"])
def test_gpt2_of_hugging_face_and_an_own_one(keep: str, keeps_square: bool) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_embd=16, n_head=2, n_layer=2, vocab_size=30, n_positions=12, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.arange(12).reshape(2, 6)
    with torch.no_grad(), insitu.record(keep=keep) as a:
        model(tokens)
    with torch.no_grad(), insitu.record(keep=keep) as b:
        port_of(model, keeps_square)(tokens)
    diff = insitu.compare(a, b)
    if not keeps_square:
        assert diff.first is None and diff.passes, str(diff)
        return
    assert diff.first is not None and not diff.passes
    relation = diff.first.relations[0]
    assert relation.kind == ("not turned" if keep == "values" else "statistics"), str(diff)
    assert relation.example is not None and relation.example.site is not None
    assert "# turn" in relation.example.site.text
