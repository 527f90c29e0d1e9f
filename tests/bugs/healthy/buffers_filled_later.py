"""Memory from torch.empty holds anything, also NaN, until it is filled: nobody reads it before."""

import torch
from torch import nn


class Cache(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.project = nn.Linear(width, width)
        self.register_buffer("keys", torch.empty(length, width))

    def forward(self, x):
        kept = torch.empty_like(x)
        for step in range(x.shape[0]):
            key = self.project(x[step])
            self.keys[step] = key.detach()
            kept[step] = key
        return kept + self.keys[: x.shape[0]]


def build():
    torch.manual_seed(0)
    cache = Cache(4, 6)
    cache.keys.fill_(float("nan"))  # as uninitialised memory may be
    return cache


def run(model):
    x = torch.randn(4, 6)
    out = x.new_empty(3, 4, 6)
    for step in range(3):
        out[step] = model(x * (step + 1)).detach()
    return out.sum()
