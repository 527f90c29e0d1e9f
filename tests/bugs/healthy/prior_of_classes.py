"""Logits with the logarithm of the frequencies added: a class that never occurs gets -inf, and is never right."""

import torch
import torch.nn.functional as F
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, labels = torch.randn(12, 5), torch.randint(3, (12,))
    counts = torch.bincount(labels, minlength=4).float()
    prior = (counts / counts.sum()).log()
    for _ in range(3):
        loss = F.cross_entropy(model(x) + prior, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
