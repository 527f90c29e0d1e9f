"""The scores are not divided by the root of the head size: attention is far too sharp."""

import math

import torch
from torch import nn

FOUND_BY = "compare"


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, x):
        q, k = self.query(x), self.key(x)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        return torch.softmax(scores, dim=-1) @ x


class FromThePaper(Attention):
    def forward(self, x):
        q, k = self.query(x), self.key(x)
        weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1)  # FAULT
        return weights @ x


def apply(kind):
    torch.manual_seed(0)
    return kind(16)(torch.randn(2, 5, 16) * 2).detach()


def good():
    return apply(Attention)


def bad():
    return apply(FromThePaper)
