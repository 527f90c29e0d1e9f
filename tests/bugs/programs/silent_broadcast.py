"""Predictions are [N, 1] and targets [N]: their difference is [N, N], and the loss is a wrong number."""

import torch
from torch import nn

FOUND_BY = "compare"


def setup():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(16, 4)
    return model, x, x.sum(dim=1)


def good():
    model, x, y = setup()
    prediction = model(x).squeeze(1)
    error = prediction - y
    loss = error.square().mean()
    loss.backward()
    return loss.detach()


def bad():
    model, x, y = setup()
    error = model(x) - y  # FAULT
    loss = error.square().mean()
    loss.backward()
    return loss.detach()
