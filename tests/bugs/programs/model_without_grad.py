"""The model runs without gradients, as in an evaluation; only a scale that no optimizer has gets a gradient."""

import torch
from torch import nn

FOUND_BY = "guard"
SHOWS = "none"


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scale = torch.ones(1, requires_grad=True)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    for _ in range(4):
        with torch.no_grad():
            out = model(x)  # FAULT
        loss = (scale * out - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
