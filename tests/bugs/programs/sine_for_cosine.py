"""The table of angles returns cosines first, and the port unpacks sines first: every pair is turned the wrong way."""

import torch
from torch import nn

FOUND_BY = "compare"
REPAIR = "cos, sin = table(6, 8)"


def table(length, width):
    frequencies = 1 / (100 ** (torch.arange(0, width, 2) / width))
    angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def good():
    torch.manual_seed(0)
    x, head = torch.randn(2, 6, 8), nn.Linear(8, 3)
    cos, sin = table(6, 8)
    return head(rotate(x, cos, sin)).detach()


def bad():
    torch.manual_seed(0)
    x, head = torch.randn(2, 6, 8), nn.Linear(8, 3)
    sin, cos = table(6, 8)  # FAULT
    return head(rotate(x, cos, sin)).detach()
