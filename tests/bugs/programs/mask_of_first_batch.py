"""The causal mask is kept in a dictionary under one key for all lengths: a later, shorter batch gets the old one."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "The size of tensor a (6) must match the size of tensor b (9)"
REPAIR = "return self.masks.setdefault(length, hide_future(length))"


def hide_future(length):
    return torch.full((length, length), float("-inf")).triu(1)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.masks = {}
        self.qkv = nn.Linear(width, 3 * width)

    def mask(self, length):
        return self.masks.setdefault("causal", hide_future(length))  # FAULT

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        mask = self.mask(x.shape[1])
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        return (scores + mask).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width)

    def forward(self, x):
        return x + self.attention(self.norm(x))


def run():
    torch.manual_seed(0)
    model = nn.Sequential(Block(8), Block(8))
    sentences = [torch.randn(2, 9, 8), torch.randn(2, 6, 8)]
    return [model(batch).mean() for batch in sentences]
