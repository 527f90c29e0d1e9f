"""The encoder was frozen for the first epochs, and nobody thawed it again: it does not learn."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "unchanged"
NAMES = "encoder.weight"
SPARES = "head.weight"


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.encoder(x).tanh())


def build():
    torch.manual_seed(0)
    model = Classifier()
    model.encoder.requires_grad_(False)
    return model


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, labels = torch.randn(12, 8), torch.randint(3, (12,))
    for _ in range(4):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
