"""One product is computed in bfloat16 for speed and converted back: two digits of the scores are gone."""

import torch
from torch import nn

FOUND_BY = "compare"


class Attention(nn.Module):
    def __init__(self, width, fast):
        super().__init__()
        self.fast = fast
        self.qkv = nn.Linear(width, 3 * width)

    def product(self, q, k):
        if self.fast:
            return (q.bfloat16() @ k.bfloat16().transpose(1, 2)).float()  # FAULT
        return q @ k.transpose(1, 2)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        weights = (self.product(q, k) / x.shape[-1] ** 0.5).softmax(-1)
        return weights @ v


def apply(fast):
    torch.manual_seed(0)
    return Attention(16, fast)(torch.randn(2, 6, 16) * 4).detach()


def good():
    return apply(fast=False)


def bad():
    return apply(fast=True)
