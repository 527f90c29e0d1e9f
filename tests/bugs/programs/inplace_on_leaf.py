"""Weights are initialised by writing into the parameter, outside of no_grad."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "a view of a leaf Variable that requires grad is being used in an in-place operation"
SAYS = "torch.no_grad()"


class Recurrent(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.inputs = nn.Linear(inputs, width)
        self.recurrent = nn.Parameter(torch.randn(width, width) * 0.1)
        self.bias = nn.Parameter(torch.zeros(3, width))
        self.reset()

    def reset(self):
        nn.init.orthogonal_(self.recurrent)
        self.bias[1] = 1.0  # FAULT

    def forward(self, x):
        gates = self.bias.sigmoid()
        return torch.tanh(self.inputs(x) @ self.recurrent) * gates[1] + gates[0]


def run():
    torch.manual_seed(0)
    return Recurrent(3, 8)(torch.randn(2, 3))
