"""Attention scores by hand, and the keys are not transposed: the inner dimensions of the product do not fit."""

import math

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Expected size for first two dimensions of batch2"
SAYS = "q @ k.transpose(-2, -1)"


class SelfAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k / math.sqrt(x.shape[-1])  # FAULT
        return scores.softmax(-1) @ v


def run():
    attention = SelfAttention(16)
    tokens = torch.randn(2, 10, 16)
    return attention(tokens).mean()
