"""The first token is zeroed in place in a tensor that the product before it still needs for its gradient."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "has been modified by an inplace operation"


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        key, value = self.key(x).tanh(), self.value(x)
        mixed = key * value
        return mixed.cumsum(1) + self.without_first(value)

    def without_first(self, value):
        value[:, 0] = 0.0  # FAULT
        return value


def run():
    torch.manual_seed(0)
    mixer = Mixer(6)
    output = mixer(torch.randn(2, 5, 6))
    loss = output.abs().mean()
    loss.backward()
    return mixer.key.weight.grad
