"""model.eval() was forgotten: batch normalisation uses the statistics of the batch instead of those it learnt."""

import torch
from torch import nn

FOUND_BY = "compare"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.conv(x)
        x = self.norm(x)  # FAULT
        return self.head(x.relu().mean((2, 3)))


def trained():
    torch.manual_seed(0)
    model = Net()
    model(torch.randn(16, 3, 8, 8) * 2 + 1)
    return model, torch.randn(4, 3, 8, 8)


def good():
    model, images = trained()
    model.eval()
    with torch.no_grad():
        return model(images)


def bad():
    model, images = trained()
    with torch.no_grad():
        return model(images)
