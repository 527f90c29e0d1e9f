"""Training with an evaluation after each epoch: dropout and batch normalisation change their mode and change back."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))


def train(model, optimizer, loader):
    model.train()
    for x, labels in loader:
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, x, labels):
    model.eval()
    return F.cross_entropy(model(x), labels)


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(32, 6)
    labels = x[:, :3].argmax(-1)
    loader = DataLoader(TensorDataset(x[:24], labels[:24]), batch_size=8)
    best, weights = torch.tensor(float("inf")), None
    for _ in range(4):
        train(model, optimizer, loader)
        loss = evaluate(model, x[24:], labels[24:])
        if loss < best:
            best, weights = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(weights)
    return evaluate(model, x, labels)
