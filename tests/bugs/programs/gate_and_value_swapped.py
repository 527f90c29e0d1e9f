"""Gate and value of a gated layer share one weight, and the port takes its halves in the other order."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"
REPAIR = "gate, value = self.both(x).chunk(2, dim=-1)"


class Gated(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.both = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, value = self.both(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * value)


class PortedGated(Gated):
    def forward(self, x):
        value, gate = self.both(x).chunk(2, dim=-1)  # FAULT
        return self.down(F.silu(gate) * value)


class Block(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.feed = kind(width, 3 * width)

    def forward(self, x):
        return x + self.feed(self.norm(x))


def apply(kind):
    torch.manual_seed(0)
    model = nn.Sequential(Block(8, kind), Block(8, kind))
    return model(torch.randn(2, 5, 8)).detach()


def good():
    return apply(Gated)


def bad():
    return apply(PortedGated)
