"""torch.where hides the value of the other branch, but not its gradient: infinity times zero is NaN."""

import torch
from torch import nn

FOUND_BY = "guard"


class RootCounts(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(words))

    def forward(self, counts):
        scaled = counts * self.scale
        root = scaled.sqrt()  # FAULT
        return torch.where(scaled > 0, root, torch.zeros_like(scaled))


def run():
    torch.manual_seed(0)
    model = nn.Sequential(RootCounts(6), nn.Linear(6, 1))
    counts = torch.randint(3, (4, 6)).float()
    loss = model(counts).square().mean()
    loss.backward()
    return model[0].scale.grad
