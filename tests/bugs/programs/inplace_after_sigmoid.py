"""A gate is scaled in place after the sigmoid, whose gradient needs the value it had before."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "has been modified by an inplace operation"


class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        value = self.value(x)
        gate *= 2  # FAULT
        return x + gate * value


def run():
    torch.manual_seed(0)
    blocks = nn.Sequential(GatedBlock(8), GatedBlock(8))
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)
    loss = blocks(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
