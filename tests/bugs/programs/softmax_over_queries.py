"""Softmax over the queries instead of the keys: the shapes are the same, the meaning is not."""

import torch
from torch import nn

FOUND_BY = "compare"


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def scores(self, q, k):
        return q @ k.transpose(1, 2) / q.shape[-1] ** 0.5

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(self.scores(q, k).softmax(dim=2) @ v)


class MyAttention(Attention):
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(self.scores(q, k).softmax(dim=1) @ v)  # FAULT


def apply(kind):
    torch.manual_seed(0)
    return kind(8)(torch.randn(2, 5, 8))


def good():
    return apply(Attention)


def bad():
    return apply(MyAttention)
