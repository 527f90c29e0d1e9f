"""A port that fuses three projections into one and uses the built-in attention: the results agree."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Port(nn.Module):
    def __init__(self, original):
        super().__init__()
        self.heads, self.out, parts = original.heads, original.out, (original.query, original.key, original.value)
        self.qkv = nn.Linear(original.out.in_features, 3 * original.out.in_features)
        self.qkv.weight.data = torch.cat([part.weight for part in parts])
        self.qkv.bias.data = torch.cat([part.bias for part in parts])

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def build():
    torch.manual_seed(0)
    return Attention(8, 2)


def run(model):
    x = torch.linspace(-1, 1, 80).view(2, 5, 8)
    return model(x).square().mean().detach()


def port(model):
    with torch.no_grad():
        return Port(model)
