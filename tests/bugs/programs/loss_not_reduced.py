"""Samples are to be weighted, so the loss is not reduced, and the mean after the weighting was forgotten."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "grad can be implicitly created only for scalar outputs"


def weighted_loss(logits, labels, weights):
    losses = F.cross_entropy(logits, labels, reduction="none")
    return losses * weights  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Linear(10, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data, labels = torch.randn(8, 10), torch.randint(4, (8,))
    weights = torch.linspace(0.5, 1.5, 8)
    loss = weighted_loss(model(data), labels, weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
