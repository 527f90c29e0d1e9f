"""A model is ported from a library that keeps weights as [in, out]: a square weight fits either way round."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"
RENAME = {"c_proj": "proj", "c_fc": "fc"}


class Conv1D(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) * 0.1)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x @ self.weight + self.bias


class Linear(Conv1D):
    def forward(self, x):
        return F.linear(x, self.weight, self.bias)  # FAULT


class Reference(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(width), Conv1D(width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Ported(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc, self.proj = Linear(width), Linear(width)

    def forward(self, x):
        return self.proj(F.gelu(self.fc(x)))


def apply(kind):
    torch.manual_seed(0)
    return kind(8)(torch.randn(3, 8)).detach()


def good():
    return apply(Reference)


def bad():
    return apply(Ported)
