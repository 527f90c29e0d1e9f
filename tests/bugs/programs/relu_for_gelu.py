"""The feed-forward layers of the port use ReLU, where the original has GELU."""

import torch
from torch import nn

FOUND_BY = "compare"


class FeedForward(nn.Module):
    def __init__(self, width, activation):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.activation = activation
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        h = self.up(x)
        h = self.activation(h)  # FAULT
        return x + self.down(h)


def stack(activation):
    torch.manual_seed(0)
    blocks = nn.Sequential(*(FeedForward(6, activation()) for _ in range(3)))
    return blocks(torch.randn(4, 6)).detach()


def good():
    return stack(nn.GELU)


def bad():
    return stack(nn.ReLU)
