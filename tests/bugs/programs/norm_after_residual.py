"""A pre-norm block is rebuilt as a post-norm block: the same layers in another order."""

import torch
from torch import nn

FOUND_BY = "compare"


class PreNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.feed(self.norm(x))


class Rebuilt(PreNorm):
    def forward(self, x):
        return self.norm(x + self.feed(x))  # FAULT


def apply(kind):
    torch.manual_seed(0)
    blocks = nn.Sequential(kind(8), kind(8))
    return blocks(torch.randn(2, 4, 8) * 3).detach()


def good():
    return apply(PreNorm)


def bad():
    return apply(Rebuilt)
