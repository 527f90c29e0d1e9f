"""The second sum of a transformer block was lost in a clean-up: the feed-forward part replaces its input."""

import torch
from torch import nn

FOUND_BY = "compare"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.feed = nn.Linear(width, width)

    def forward(self, x):
        x = x + self.mix(x).tanh()
        return x + self.feed(x).relu()


class CleanBlock(Block):
    def forward(self, x):
        x = x + self.mix(x).tanh()
        return self.feed(x).relu()  # FAULT


def apply(kind):
    torch.manual_seed(0)
    model = nn.Sequential(kind(8), nn.LayerNorm(8), nn.Linear(8, 2))
    return model(torch.randn(4, 8)).detach()


def good():
    return apply(Block)


def bad():
    return apply(CleanBlock)
