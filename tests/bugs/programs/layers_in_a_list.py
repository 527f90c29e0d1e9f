"""The layers are in a plain list, which does not register them: they keep their first weights."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))"


class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = [nn.Linear(width, width) for _ in range(count)]  # FAULT

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        results = torch.stack([expert(x) for expert in self.experts], -1)
        return (results * weights[:, None]).sum(-1)


def build():
    torch.manual_seed(0)
    return Experts(6, 3)


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    x = torch.randn(40, 6)
    y = x.roll(1, -1) * 2
    for _ in range(60):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()
