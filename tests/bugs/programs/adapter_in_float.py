"""Adapters are attached after the model was cast to bfloat16: they are float32, and the activations are not."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "to have the same dtype"
REPAIR = "self.down = nn.Linear(layer.in_features, rank, bias=False, dtype=layer.weight.dtype)"


class Adapter(nn.Module):
    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)  # FAULT
        self.up = nn.Linear(rank, layer.out_features, bias=False, dtype=layer.weight.dtype)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        normed = self.norm(x)
        return x + self.query(normed).sigmoid() * self.value(normed)


def attach(model, names, rank):
    for block in model:
        for name in names:
            setattr(block, name, Adapter(getattr(block, name), rank))


def run():
    torch.manual_seed(0)
    model = nn.Sequential(Block(16), Block(16)).to(torch.bfloat16)
    attach(model, ["query", "value"], rank=4)
    return model(torch.randn(2, 5, 16, dtype=torch.bfloat16)).float().mean()
