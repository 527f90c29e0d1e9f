"""Cross entropy by hand: a probability that underflowed to zero has no logarithm."""

import torch
from torch import nn

FOUND_BY = "guard"


def cross_entropy(logits, labels):
    probabilities = logits.softmax(dim=-1)
    picked = probabilities[torch.arange(len(labels)), labels]
    return -picked.log().mean()  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    x, labels = torch.randn(8, 6), torch.randint(3, (8,))
    x[2] *= 1000  # one row that was never normalised
    labels[2] = model(x[2]).argmin()
    loss = cross_entropy(model(x), labels)
    loss.backward()
    return loss
