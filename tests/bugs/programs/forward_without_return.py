"""The forward of a block ends without a return; the layer after it is given None."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "NoneType"


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.down(self.up(x).relu())


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.feed = FeedForward(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        h = self.feed(x)  # FAULT
        return self.norm(x + h)


def run():
    torch.manual_seed(0)
    return Model(8)(torch.randn(2, 8))
