"""The mean over the words of a sentence counts the padding: short sentences fade."""

import torch
from torch import nn

FOUND_BY = "compare"


def mean_pool(hidden, real):
    weights = real.unsqueeze(-1).float()
    return (hidden * weights).sum(1) / weights.sum(1)


def simple_mean_pool(hidden, real):
    weights = real.unsqueeze(-1).float()
    return (hidden * weights).mean(1)  # FAULT


def sentence_vectors(pool):
    torch.manual_seed(0)
    embed, project = nn.Embedding(50, 12), nn.Linear(12, 6)
    ids = torch.randint(1, 50, (3, 8))
    real = torch.arange(8) < torch.tensor([[8], [3], [5]])
    return project(pool(embed(ids), real)).detach()


def good():
    return sentence_vectors(mean_pool)


def bad():
    return sentence_vectors(simple_mean_pool)
