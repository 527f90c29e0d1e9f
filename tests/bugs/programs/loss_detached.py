"""The output is detached before the loss, which is then told to require a gradient: nothing learns, nothing raises."""

import torch
from torch import nn

FOUND_BY = "guard"
SHOWS = "none"


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    for _ in range(4):
        out = model(x).detach()  # FAULT
        loss = (out - y).square().mean().requires_grad_()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
