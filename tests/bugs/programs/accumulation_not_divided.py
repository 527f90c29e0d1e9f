"""Gradients of eight small batches are added up for one step, and nobody divides by eight: the step is too large."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "(loss / ACCUMULATE).backward()"
ACCUMULATE = 8


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def train(model, optimizer, loader):
    for number, (x, y) in enumerate(loader, 1):
        loss = F.cross_entropy(model(x), y)
        loss.backward()  # FAULT
        if number % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()


def run(model):
    x = torch.randn(128, 8)
    y = x[:, :3].argmax(-1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(8):
        train(model, optimizer, DataLoader(TensorDataset(x, y), batch_size=4))
    with torch.no_grad():
        return F.cross_entropy(model(x), y)
