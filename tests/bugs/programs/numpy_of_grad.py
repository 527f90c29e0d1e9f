"""Predictions are turned into NumPy for a plot while they still carry their graph."""

import numpy as np
import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Can't call numpy() on Tensor that requires grad"
SAYS = "prediction[:, 0] requires a gradient"


def fit(model, x, y, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = (model(x) - y).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def curve(model, x):
    prediction = model(x)
    return np.stack([x[:, 0].numpy(), prediction[:, 0].numpy()])  # FAULT


def run():
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 20).unsqueeze(1)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    fit(model, x, x.sin(), steps=2)
    return curve(model, x)
