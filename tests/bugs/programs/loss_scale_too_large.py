"""The loss is scaled for fp16 by far too much: forward is finite, and the gradients overflow on their way back."""

import torch
from torch import nn

FOUND_BY = "guard"
SCALE = 30_000.0


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((8, 1), 0.01))

    def forward(self, x):
        return x @ self.weight  # FAULT


def run():
    torch.manual_seed(0)
    model = Regression().half()
    x = torch.full((16, 8), 20.0, dtype=torch.float16)
    loss = (model(x) - 1.0).abs().mean()
    (loss * SCALE).backward()
    return model.weight.grad
