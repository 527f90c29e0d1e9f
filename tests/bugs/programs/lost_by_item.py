"""The losses of several tasks are collected as numbers and put into a new tensor: the graph is gone."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "element 0 of tensors does not require grad"


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 16)
        self.heads = nn.ModuleList(nn.Linear(16, 1) for _ in range(3))

    def forward(self, x):
        shared = self.trunk(x).relu()
        return [head(shared) for head in self.heads]


def total_loss(predictions, targets):
    losses = [F.mse_loss(p, t) for p, t in zip(predictions, targets, strict=True)]
    return torch.tensor([loss.item() for loss in losses]).mean()  # FAULT


def run():
    torch.manual_seed(0)
    model = MultiTask()
    targets = torch.randn(3, 5, 1)
    loss = total_loss(model(torch.randn(5, 8)), targets)
    loss.backward()
