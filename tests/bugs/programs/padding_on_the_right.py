"""A causal convolution must be padded on the left; padded on the right it looks into the future."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"


class CausalConv(nn.Module):
    def __init__(self, channels, size):
        super().__init__()
        self.size = size
        self.conv = nn.Conv1d(channels, channels, size)

    def forward(self, x):
        return self.conv(F.pad(x, (self.size - 1, 0)))


class MyCausalConv(CausalConv):
    def forward(self, x):
        padded = F.pad(x, (0, self.size - 1))  # FAULT
        return self.conv(padded)


def apply(kind):
    torch.manual_seed(0)
    model = nn.Sequential(kind(3, 3), nn.ReLU(), kind(3, 3))
    return model(torch.randn(2, 3, 12)).detach()


def good():
    return apply(CausalConv)


def bad():
    return apply(MyCausalConv)
