"""Sixteen sigmoid layers on top of each other: almost nothing of the gradient reaches the first."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "vanishing"
NAMES = "layers.0.weight"
SPARES = "head.weight"


class Deep(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        for layer in self.layers:
            x = torch.sigmoid(layer(x))
        return self.head(x)


def build():
    torch.manual_seed(0)
    return Deep(width=10, depth=16)


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, labels = torch.randn(8, 10), torch.randint(2, (8,))
    for _ in range(4):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
