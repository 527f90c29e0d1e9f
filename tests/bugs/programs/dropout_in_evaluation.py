"""The functional dropout is not told whether the model trains: it goes on in evaluation, after eval()."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "return F.dropout(hidden, 0.6, self.training)"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        hidden = self.layer(x).relu()
        return F.dropout(hidden, 0.6)  # FAULT


class Regression(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inputs = nn.Linear(3, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.blocks(self.inputs(x)))


def build():
    torch.manual_seed(0)
    return Regression(64)


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(64, 3)
    y = x.sum(-1, keepdim=True)
    for _ in range(40):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return F.mse_loss(model(x), y)
