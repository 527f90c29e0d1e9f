"""Softmax written as in the book: without subtracting the maximum the exponential overflows."""

import torch
from torch import nn

FOUND_BY = "guard"


def softmax(x):
    powers = torch.exp(x)  # FAULT
    return powers / powers.sum(dim=-1, keepdim=True)


class Router(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        weights = softmax(self.gate(x))
        outputs = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return (outputs * weights.unsqueeze(-2)).sum(-1)


def run():
    torch.manual_seed(0)
    x = torch.randn(6, 8) * 200
    return Router(8, 3)(x)
