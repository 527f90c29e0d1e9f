"""The training epoch starts with eval() instead of train(): batch normalisation never learns what the data is like."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "model.train()"


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))


def epoch(model, optimizer, batches):
    model.eval()  # FAULT
    for x, labels in batches:
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        return torch.stack([F.cross_entropy(model(x), labels) for x, labels in batches]).mean()


def run(model):
    x = torch.randn(64, 4) + 10
    labels = x[:, :3].argmax(-1)
    batches = list(zip(x.split(16), labels.split(16), strict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        epoch(model, optimizer, batches)
    return evaluate(model, batches)
