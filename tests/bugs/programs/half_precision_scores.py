"""Attention in fp16 multiplies queries and keys before it scales them: the product is beyond 65504."""

import torch
from torch import nn

FOUND_BY = "guard"


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1)  # FAULT
        scores = scores / q.shape[-1] ** 0.5
        return scores.softmax(-1) @ v


def run():
    torch.manual_seed(0)
    attention = Attention(64).half()
    x = torch.randn(2, 10, 64) * 120
    with torch.no_grad():
        return attention(x.half())
