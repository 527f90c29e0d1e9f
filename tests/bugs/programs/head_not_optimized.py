"""The optimizer was given the parameters of the body only: the head gets gradients and never moves."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "unchanged"
NAMES = "head.weight"
SPARES = "body.weight"


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Linear(6, 12)
        self.head = nn.Linear(12, classes)

    def forward(self, x):
        return self.head(self.body(x).relu())


def build():
    torch.manual_seed(0)
    return Model(classes=2)


def run(model):
    optimizer = torch.optim.SGD(model.body.parameters(), lr=0.1)
    x, labels = torch.randn(10, 6), torch.randint(2, (10,))
    for _ in range(4):
        model.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
