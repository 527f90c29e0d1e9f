"""The original keeps the first two rows of its position table for padding; the port counts from row zero."""

import torch
from torch import nn

FOUND_BY = "compare"
REPAIR = "positions = torch.arange(ids.shape[1]) + OFFSET"
OFFSET = 2


class Embeddings(nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.positions = nn.Embedding(length + OFFSET, width)
        self.norm = nn.LayerNorm(width)

    def number(self, ids):
        positions = torch.arange(ids.shape[1]) + OFFSET
        return positions.expand_as(ids)

    def forward(self, ids):
        return self.norm(self.tokens(ids) + self.positions(self.number(ids)))


class PortedEmbeddings(Embeddings):
    def number(self, ids):
        positions = torch.arange(ids.shape[1])  # FAULT
        return positions.expand_as(ids)


def apply(kind):
    torch.manual_seed(0)
    model = nn.Sequential(kind(30, 12, 8), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 30))
    return model(torch.randint(30, (2, 7))).detach()


def good():
    return apply(Embeddings)


def bad():
    return apply(PortedEmbeddings)
