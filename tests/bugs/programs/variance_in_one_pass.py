"""Variance as the mean of squares minus the square of the mean: rounding makes it negative, and its root NaN."""

import torch
from torch import nn

FOUND_BY = "guard"


class RunningNorm(nn.Module):
    def forward(self, x):
        mean = x.mean(dim=0)
        variance = x.square().mean(dim=0) - mean.square()
        deviation = variance.sqrt()  # FAULT
        return (x - mean) / (deviation + 1e-5)


def run():
    torch.manual_seed(0)
    pressure = 101_325 + 0.01 * torch.randn(64, 20)
    model = nn.Sequential(RunningNorm(), nn.Linear(20, 1))
    return model(pressure).mean()
