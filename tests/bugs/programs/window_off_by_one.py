"""Windows of a time series with the value after each as target: the last window has no value after it."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "index 40 is out of bounds for dimension 0 with size 40"
SAYS = "it has -40 … 39"
WINDOW = 8


def windows(series):
    inputs, targets = [], []
    for start in range(0, len(series) - WINDOW + 1, 4):
        inputs.append(series[start : start + WINDOW])
        targets.append(series[start + WINDOW])  # FAULT
    return torch.stack(inputs), torch.stack(targets)


def run():
    series = torch.linspace(0, 6, 40).sin()
    inputs, targets = windows(series)
    model = nn.Linear(WINDOW, 1)
    loss = (model(inputs).squeeze(1) - targets).abs().mean()
    loss.backward()
    return loss
