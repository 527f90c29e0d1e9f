"""The scale is computed from its parameter in the constructor: its graph is gone after the first backward."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Trying to backward through the graph a second time"


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.logarithm = nn.Parameter(torch.zeros(width))
        self.scale = self.logarithm.exp()  # FAULT

    def forward(self, x):
        return x * self.scale


class Flow(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.turn = nn.Linear(width, width)
        self.scale = Scale(width)

    def forward(self, x):
        return self.scale(self.turn(x))


def run():
    torch.manual_seed(0)
    model = nn.Sequential(Flow(6), nn.Tanh(), Flow(6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.randn(10, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
