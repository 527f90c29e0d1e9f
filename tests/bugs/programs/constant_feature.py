"""Features are standardised without an epsilon, and one of them is constant: its deviation is zero."""

import torch
from torch import nn

FOUND_BY = "guard"


def standardize(x):
    centered = x - x.mean(dim=0)
    return centered / x.std(dim=0)  # FAULT


def run():
    torch.manual_seed(0)
    age, height = torch.rand(16) * 80, torch.rand(16) + 1
    country = torch.full((16,), 49.0)
    x = standardize(torch.stack([age, height, country], dim=1))
    model = nn.Linear(3, 1)
    loss = model(x).square().mean()
    loss.backward()
    return loss
