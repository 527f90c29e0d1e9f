"""The position embedding has its weights in the port, but is never added to the tokens."""

import torch
from torch import nn

FOUND_BY = "compare"


class Embeddings(nn.Module):
    def __init__(self, vocabulary, context, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        return self.norm(self.tokens(ids) + self.positions(places))


class Port(Embeddings):
    def forward(self, ids):
        return self.norm(self.tokens(ids))  # FAULT


def apply(kind):
    torch.manual_seed(0)
    embeddings = kind(40, 16, 8)
    return embeddings(torch.randint(40, (2, 9))).detach()


def good():
    return apply(Embeddings)


def bad():
    return apply(Port)
