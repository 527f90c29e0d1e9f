"""Two micro-batches for each step: the gradients are added up on purpose and set to zero after the step."""

import torch
import torch.nn.functional as F
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x, labels = torch.randn(8, 6), torch.randint(3, (8,))
        for micro, target in zip(x.split(4), labels.split(4), strict=True):
            loss = F.cross_entropy(model(micro), target) / 2
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss
