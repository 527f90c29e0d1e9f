"""The fused weight of the original keeps query, key and value of a head together; the port takes all queries first."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"
REPAIR = "return self.qkv(x).unflatten(-1, (self.heads, 3, -1)).transpose(2, 3)"


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        return self.qkv(x).unflatten(-1, (self.heads, 3, -1)).transpose(2, 3)

    def forward(self, x):
        q, k, v = self.split(x).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class PortedAttention(Attention):
    def split(self, x):
        return self.qkv(x).unflatten(-1, (3, self.heads, -1))  # FAULT


def apply(kind):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.LayerNorm(12), kind(12, heads=3), nn.GELU(), nn.Linear(12, 5))
    return layers(torch.randn(2, 6, 12)).detach()


def good():
    return apply(Attention)


def bad():
    return apply(PortedAttention)
