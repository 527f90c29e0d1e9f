"""The features are detached on their way to the head, so that the encoder never gets a gradient."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "none"
NAMES = "encoder.weight"
SPARES = "head.weight"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv1d(2, 8, 3)
        self.head = nn.Linear(8, 4)

    def features(self, signal):
        return self.encoder(signal).relu().amax(dim=-1).detach()

    def forward(self, signal):
        return self.head(self.features(signal))


def build():
    torch.manual_seed(0)
    return Model()


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    signals, labels = torch.randn(6, 2, 20), torch.randint(4, (6,))
    for _ in range(4):
        loss = F.cross_entropy(model(signals), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
