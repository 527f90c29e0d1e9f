"""The heads are split with a view alone: it mixes positions and heads, where a transpose is needed."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def split(self, x):
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return mixed.transpose(1, 2).reshape(x.shape)


class MyAttention(Attention):
    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, self.heads, length, width // self.heads)  # FAULT


def apply(kind):
    torch.manual_seed(0)
    return kind(8, heads=2)(torch.randn(2, 6, 8)).detach()


def good():
    return apply(Attention)


def bad():
    return apply(MyAttention)
