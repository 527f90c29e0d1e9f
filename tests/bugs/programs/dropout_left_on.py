"""The functional dropout is not told whether the model trains: it drops in evaluation, too."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"


class Reference(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 20)
        self.second = nn.Linear(20, 3)

    def forward(self, x):
        h = F.dropout(self.first(x).relu(), 0.5, self.training)
        return self.second(h)


class Port(Reference):
    def forward(self, x):
        h = F.dropout(self.first(x).relu(), 0.5)  # FAULT
        return self.second(h)


def evaluate(kind):
    torch.manual_seed(0)
    model = kind().eval()
    x = torch.randn(6, 10)
    with torch.no_grad():
        return model(x).softmax(-1)


def good():
    return evaluate(Reference)


def bad():
    return evaluate(Port)
