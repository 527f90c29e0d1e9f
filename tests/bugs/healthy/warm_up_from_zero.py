"""The learning rate starts at zero and rises; the gradient norm falls to a thousandth, as it should."""

import torch
import torch.nn.functional as F
from torch import nn

WARMUP = 4


def build():
    torch.manual_seed(0)
    return nn.Linear(4, 1)


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / WARMUP, 1.0))
    x = torch.randn(64, 4)
    y = x @ torch.tensor([[3.0], [-2.0], [1.0], [4.0]]) + 5
    norms = []
    for _ in range(20):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 100.0))
        optimizer.step()
        schedule.step()
    return loss.detach() + norms[-1] / norms[0]
