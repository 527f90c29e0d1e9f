"""The models that are traced: small ones, where the cost of a tool shows, and a large one without memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PASSES = 10


class MHA(nn.Module):
    """Three rounds of attention written by hand: many small functions, few modules."""

    def __init__(self, width: int = 32, heads: int = 4, rounds: int = 3) -> None:
        super().__init__()
        self.heads, self.rounds = heads, rounds
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, time, width) as (batch, head, time, part)."""
        return x.view(2, 20, self.heads, 8).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Attend to itself, again and again."""
        for _ in range(self.rounds):
            q, k, v = self.split_heads(self.q(x)), self.split_heads(self.k(x)), self.split_heads(self.v(x))
            weights = F.softmax(q @ k.transpose(-2, -1) / 2, dim=-1)
            x = x + self.o((weights @ v).transpose(1, 2).reshape(2, 20, 32))
        return x


@dataclass(frozen=True, slots=True)
class Subject:
    """A model and what to give it."""

    name: str
    model: nn.Module
    input: Tensor

    def forward(self) -> object:
        """One forward pass."""
        return self.model(self.input)

    def forwards(self) -> None:
        """Some forward passes: enough to outweigh the beginning and the end of a session."""
        for _ in range(PASSES):
            self.forward()

    def trainings(self) -> None:
        """Some forward and backward passes."""
        for _ in range(PASSES):
            output = self.forward()
            (output if isinstance(output, Tensor) else output[0]).sum().backward()  # type: ignore[index]
            self.model.zero_grad()


def mha() -> Subject:
    """About 55 functions and 136 operators a pass."""
    torch.manual_seed(0)
    return Subject("MHA", MHA(), torch.randn(2, 20, 32))


def gpt2() -> Subject:
    """A tiny GPT2 of `transformers`: about 272 functions and 265 operators a pass."""
    from transformers import GPT2Config, GPT2Model
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.manual_seed(0)
    size: dict[str, Any] = {"n_layer": 4, "n_head": 2, "n_embd": 32, "vocab_size": 100, "n_positions": 64}
    config = GPT2Config(**size, attn_implementation="eager", use_cache=False)
    return Subject("GPT2", GPT2Model(config).eval(), torch.randint(0, 100, (2, 16)))


def cnn() -> Subject:
    """About 27 functions and 34 operators a pass, the heavier ones."""
    torch.manual_seed(0)
    blocks = [
        layer
        for channels in (3, 8, 8, 8, 8, 8)
        for layer in (nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    ]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    return Subject("CNN", model.eval(), torch.randn(2, 3, 16, 16))


SMALL: tuple[Callable[[], Subject], ...] = (mha, gpt2, cnn)


def llama() -> Subject:
    """A Llama of 70 billion parameters on the meta device."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size: dict[str, Any] = {
        "hidden_size": 8192,
        "num_hidden_layers": 80,
        "intermediate_size": 28672,
        "vocab_size": 128256,
    }
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = LlamaForCausalLM(LlamaConfig(**size, num_attention_heads=64, num_key_value_heads=8))
    return Subject("Llama-70B", model.requires_grad_(False), torch.zeros(1, 128, dtype=torch.long, device="meta"))
