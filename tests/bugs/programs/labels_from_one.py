"""The labels of the data set are 1..5, and cross_entropy counts the classes from zero."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "Target 5 is out of bounds"
CLASSES = 5


def load(count):
    features = torch.randn(count, 12)
    stars = torch.arange(count) % CLASSES + 1  # FAULT
    return features, stars


def run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.Adam(model.parameters())
    features, stars = load(20)
    for _ in range(3):
        loss = F.cross_entropy(model(features), stars)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
