"""Label smoothing was left out: the targets are exactly zero and one, and their logits are infinite."""

import torch
from torch import nn

FOUND_BY = "guard"


def teacher_logits(labels):
    return torch.logit(labels.float())  # FAULT


def run():
    torch.manual_seed(0)
    student = nn.Linear(6, 1)
    x, labels = torch.randn(8, 6), torch.randint(2, (8, 1))
    loss = (student(x) - teacher_logits(labels)).square().mean()
    loss.backward()
    return loss
