"""Positions are counted from one, and the table of positions has exactly as many rows as the context is long."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "index out of range in self"
CONTEXT = 16


class Embeddings(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, positions):
        return self.norm(self.tokens(ids) + self.positions(positions))


def number(ids):
    return torch.arange(1, ids.shape[1] + 1)  # FAULT


def run():
    ids = torch.randint(100, (2, CONTEXT))
    embeddings = Embeddings(100, 32)
    return embeddings(ids, number(ids))
