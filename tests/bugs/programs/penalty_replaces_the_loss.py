"""The penalty on the weights is assigned to the loss, and not added to it."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "loss = loss + 1e-4 * sum(weight.square().sum() for weight in model.parameters())"


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 2))


def regularized(model, loss):
    loss = 1e-4 * sum(weight.square().sum() for weight in model.parameters())  # FAULT
    return loss


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(50):
        x = torch.randn(32, 6)
        y = torch.stack([x[:, :3].sum(-1), x[:, 3:].sum(-1)], -1)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        regularized(model, loss).backward()
        optimizer.step()
    return F.mse_loss(model(x), y).detach()
