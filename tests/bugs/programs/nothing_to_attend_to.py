"""A sentence of the batch is empty, so that its whole row of scores is masked: softmax has nothing to sum."""

import torch
from torch import nn

FOUND_BY = "guard"


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)

    def forward(self, x, padding):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(padding.unsqueeze(1), float("-inf"))
        weights = scores.softmax(dim=-1)  # FAULT
        return weights @ x


def run():
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    lengths = torch.tensor([5, 0, 3])
    padding = torch.arange(5) >= lengths.unsqueeze(1)
    return Attention(8)(x, padding).mean()
