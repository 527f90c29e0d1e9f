"""Attention with a mask of -inf under the softmax, forward and backward: the infinities are on purpose."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(1, 2) / x.shape[-1] ** 0.5).masked_fill(future, float("-inf"))
        bias = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        return self.out((scores + bias).softmax(-1) @ v)


def build():
    torch.manual_seed(0)
    return Attention(8)


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(2, 6, 8), torch.randn(2, 6, 8)
    for _ in range(3):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
