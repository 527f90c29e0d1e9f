"""A linear recurrence whose matrix is too large: the gradient grows with every step of the sequence."""

import torch
from torch import nn

FOUND_BY = "guard"
SHOWS = "exploding"
NAMES = "recurrent.weight"


class Recurrence(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.inputs = nn.Linear(inputs, width)
        self.recurrent = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.recurrent.weight, std=0.35)

    def forward(self, series):
        state = torch.zeros(series.shape[0], self.recurrent.in_features)
        for step in range(series.shape[1]):
            state = self.recurrent(state) + self.inputs(series[:, step])
        return state


def build():
    torch.manual_seed(0)
    return Recurrence(2, 16)


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    series = torch.randn(4, 16, 2)
    for _ in range(2):
        loss = model(series).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
