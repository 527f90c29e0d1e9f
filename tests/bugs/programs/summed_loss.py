"""The loss is summed over the batch instead of averaged: the step is sixteen times as large."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"


def mean_loss(logits, labels):
    return F.cross_entropy(logits, labels)


def sum_loss(logits, labels):
    return F.cross_entropy(logits, labels, reduction="sum")  # FAULT


def train(criterion):
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x, labels = torch.randn(16, 6), torch.randint(3, (16,))
        loss = criterion(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.weight.detach()


def good():
    return train(mean_loss)


def bad():
    return train(sum_loss)
