"""Binary cross entropy is given integer labels; unlike cross_entropy it wants floats."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "can't be cast to the desired output type Long"


def load(count):
    x = torch.randn(count, 6)
    spam = (x.sum(1, keepdim=True) > 0).long()  # FAULT
    return x, spam


def train(model, x, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = F.binary_cross_entropy_with_logits(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def run():
    torch.manual_seed(0)
    x, spam = load(12)
    train(nn.Linear(6, 1), x, spam)
