"""A teacher without gradients, a fixed network in the loss that nobody trains, and a student that learns."""

import torch
import torch.nn.functional as F
from torch import nn

TEACHER, FEATURES = nn.Linear(5, 3), nn.Linear(3, 4)


def build():
    torch.manual_seed(0)
    for layer in (TEACHER, FEATURES):
        layer.reset_parameters()
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))


def run(model):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    x = torch.randn(8, 5)

    def closure():
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = TEACHER(x)
        loss = F.mse_loss(FEATURES(model(x)), FEATURES(wanted))
        loss.backward()
        return loss

    for _ in range(3):
        loss = optimizer.step(closure)
    return loss.detach()
