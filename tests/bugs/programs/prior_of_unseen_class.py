"""The logarithm of the frequencies is added to the logits, and a sample has the class that was not counted."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"


def run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
    x, labels = torch.randn(12, 5), torch.randint(3, (12,))
    counts = torch.bincount(labels, minlength=4).float()
    share = counts / counts.sum()
    prior = torch.log(share)  # FAULT
    labels[0] = 3
    logits = model(x) + prior[None]
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    return loss.detach()
