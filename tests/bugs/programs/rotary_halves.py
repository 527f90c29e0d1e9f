"""Rotary embedding turns pairs of features: one library pairs neighbours, the other the two halves."""

import torch
from torch import nn

FOUND_BY = "compare"


def turn_halves(x):
    left, right = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat([-right, left], dim=-1)


def turn_neighbours(x):
    even, odd = x[..., ::2], x[..., 1::2]  # FAULT
    return torch.cat([-odd, even], dim=-1)


class Rotary(nn.Module):
    def __init__(self, width, turn):
        super().__init__()
        self.turn = turn
        self.query = nn.Linear(width, width)

    def forward(self, x):
        width = x.shape[-1]
        rates = 100.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.arange(x.shape[1])[:, None] * torch.cat([rates, rates])
        q = self.query(x)
        return q * angles.cos() + self.turn(q) * angles.sin()


def apply(turn):
    torch.manual_seed(0)
    return Rotary(8, turn)(torch.randn(2, 5, 8)).detach()


def good():
    return apply(turn_halves)


def bad():
    return apply(turn_neighbours)
