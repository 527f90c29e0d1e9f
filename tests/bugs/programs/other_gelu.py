"""The checkpoint was trained with the tanh form of GELU, and the port uses the exact one: a small difference."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"
RENAME = {"h.*": "layers.*"}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x), approximate="tanh"))


class PortedBlock(Block):
    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))  # FAULT


class Original(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.h = nn.Sequential(Block(width), Block(width))

    def forward(self, x):
        return self.h(x)


class Port(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(PortedBlock(width), PortedBlock(width))

    def forward(self, x):
        return self.layers(x)


def apply(kind):
    torch.manual_seed(0)
    return kind(8)(torch.randn(4, 8) * 2).detach()


def good():
    return apply(Original)


def bad():
    return apply(Port)
