"""The gradients are never set to zero, so that every step is taken with the sum of all gradients so far."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "accumulated"


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 12)
        self.out = nn.Linear(12, 3)

    def forward(self, x):
        return self.out(self.hidden(x).tanh())


def build():
    torch.manual_seed(0)
    return Classifier()


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(5):
        x, labels = torch.randn(8, 6), torch.randint(3, (8,))
        loss = F.cross_entropy(model(x), labels)
        loss.backward()  # FAULT
        optimizer.step()
