"""A layer is defined and then forgotten in forward: it has parameters but never a gradient."""

import torch
from torch import nn

FOUND_BY = "guard"
SHOWS = "none"
NAMES = "shortcut.weight"
SPARES = "second.weight"


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.shortcut = nn.Linear(width, width)

    def forward(self, x):
        return x + self.second(self.first(x).relu())


def build():
    torch.manual_seed(0)
    return Residual(8)


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(10, 8), torch.randn(10, 8)
    for _ in range(4):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
