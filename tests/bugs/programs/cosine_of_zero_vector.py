"""Cosine similarity by hand, and one of the vectors is zero because the ReLU before it let nothing through."""

import torch
from torch import nn

FOUND_BY = "guard"


def cosine(a, b):
    lengths = a.norm(dim=-1) * b.norm(dim=-1)
    return (a * b).sum(dim=-1) / lengths  # FAULT


def run():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
    queries, documents = torch.randn(6, 5), torch.randn(6, 5)
    with torch.no_grad():
        encoder[0].bias.fill_(-0.2)
        queries[4] = 0.0
        scores = cosine(encoder(queries), encoder(documents))
    return scores.mean()
