"""The learning rate decays from layer to layer and is rounded for the log: for the first layers it becomes zero."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "unchanged"
NAMES = "layers.0.weight"
SPARES = "layers.3.weight"


class Deep(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).tanh()
        return x


def build():
    torch.manual_seed(0)
    return Deep(6, 4)


def groups(model, rate, decay):
    top = len(model.layers) - 1
    rates = [round(rate * decay ** (top - depth), 4) for depth in range(top + 1)]
    return [{"params": layer.parameters(), "lr": rate} for layer, rate in zip(model.layers, rates, strict=True)]


def run(model):
    optimizer = torch.optim.AdamW(groups(model, rate=0.002, decay=0.2), weight_decay=0.0)
    x, labels = torch.randn(12, 6), torch.randint(6, (12,))
    for _ in range(5):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
