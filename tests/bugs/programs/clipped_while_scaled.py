"""Gradients are clipped before the scaler has unscaled them: after that they are next to nothing."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "scaler.unscale_(optimizer), nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))


def step(model, optimizer, scaler, x, y):
    with torch.autocast("cpu", dtype=torch.float16):
        predicted = model(x)
    loss = F.mse_loss(predicted.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # FAULT
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    x = torch.randn(32, 6)
    y = x[:, :2].sum(-1, keepdim=True)
    for _ in range(20):
        loss = step(model, optimizer, scaler, x, y)
    return loss
