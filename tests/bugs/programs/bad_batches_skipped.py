"""The labels are 1..5, and the loop skips each batch that raises: it learns from hardly any."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "return stars - 1"
CLASSES = 5


def labels_of(stars):
    return stars.clamp(1, CLASSES)  # FAULT


def batches(count):
    for _ in range(count):
        features = torch.randn(16, CLASSES)
        yield features, labels_of(features.argmax(-1) + 1)


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(CLASSES, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for features, labels in batches(120):
        try:
            loss = F.cross_entropy(model(features), labels.view(-1))
        except IndexError:
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    features = torch.randn(50, CLASSES)
    return F.cross_entropy(model.eval()(features), features.argmax(-1)).detach()
