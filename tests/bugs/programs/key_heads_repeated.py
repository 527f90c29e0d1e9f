"""Four query heads share two key heads: each key head must be repeated beside itself, not the row of both."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"
REPAIR = "return x.repeat_interleave(count, dim=1)"


class Attention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, groups * self.size)
        self.value = nn.Linear(width, groups * self.size)

    def spread(self, x, count):
        return x.repeat_interleave(count, dim=1)

    def forward(self, x):
        q = self.query(x).unflatten(-1, (self.heads, self.size)).transpose(1, 2)
        k, v = (layer(x).unflatten(-1, (self.groups, self.size)).transpose(1, 2) for layer in (self.key, self.value))
        count = self.heads // self.groups
        mixed = F.scaled_dot_product_attention(q, self.spread(k, count), self.spread(v, count))
        return mixed.transpose(1, 2).flatten(2)


class PortedAttention(Attention):
    def spread(self, x, count):
        return x.repeat(1, count, 1, 1)  # FAULT


def apply(kind):
    torch.manual_seed(0)
    layers = nn.Sequential(kind(16, heads=4, groups=2), nn.Linear(16, 4))
    return layers(torch.randn(2, 5, 16)).detach()


def good():
    return apply(Attention)


def bad():
    return apply(PortedAttention)
