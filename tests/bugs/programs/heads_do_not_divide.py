"""Twelve features cannot be split into five heads of two: the view asks for another number of elements."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "is invalid for input of size"
SAYS = "3 × 7 × 12 = 252 elements do not fit into 3 × 7 × 5 × 2 = 210"


class MultiHead(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        batch, length, _ = x.shape
        return x.view(batch, length, self.heads, self.size).transpose(1, 2)  # FAULT

    def forward(self, x):
        return self.out(self.split(self.query(x)).flatten(2))


def run():
    layer = MultiHead(width=12, heads=5)
    return layer(torch.randn(3, 7, 12))
