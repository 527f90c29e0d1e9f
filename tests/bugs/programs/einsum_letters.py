"""The letters of an einsum say that the heads come last, and they do not: two sizes for the same letter."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "einsum"
SAYS = "h is 3 in bhte and 7 in bshe"


class Bilinear(nn.Module):
    def __init__(self, heads, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, size, size))

    def forward(self, left, right):
        mixed = torch.einsum("bhtd,hde->bhte", left, self.weight)
        return torch.einsum("bhte,bshe->bhts", mixed, right)  # FAULT


def run():
    torch.manual_seed(0)
    left = torch.randn(2, 3, 5, 4)
    right = torch.randn(2, 3, 7, 4)
    scores = Bilinear(3, 4)(left, right)
    return scores.softmax(-1)
