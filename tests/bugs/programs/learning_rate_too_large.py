"""The learning rate is far too large: the weights grow a thousandfold each step, until the loss is infinite."""

import torch
from torch import nn

FOUND_BY = "guard"


def run():
    torch.manual_seed(0)
    x = torch.randn(32, 4)
    y = x @ torch.tensor([1.0, -2.0, 0.5, 3.0])
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=500.0)
    for _ in range(20):
        error = model(x).squeeze(1) - y
        loss = error.square().mean()  # FAULT
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
