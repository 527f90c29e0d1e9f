"""The bias of a layer was initialised far below zero: its ReLU never opens, and its gradient is exactly zero."""

import torch
from torch import nn

FOUND_BY = "guard"
SHOWS = "vanishing"
NAMES = "hidden.weight"
SPARES = "out.bias"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.out = nn.Linear(16, 1)
        nn.init.constant_(self.hidden.bias, -40.0)

    def forward(self, x):
        return self.out(self.hidden(x).relu())


def build():
    torch.manual_seed(0)
    return Net()


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    for _ in range(4):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
