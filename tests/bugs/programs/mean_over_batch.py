"""Sentence vectors are averaged over the batch instead of the words; batch and length happen to be equal."""

import torch
from torch import nn

FOUND_BY = "compare"


class Pooling(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, words):
        return words.mean(dim=self.dim)  # FAULT


class Classifier(nn.Module):
    def __init__(self, pooling):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.pool = pooling
        self.out = nn.Linear(8, 2)

    def forward(self, ids):
        return self.out(self.pool(self.embed(ids)))


def apply(dim):
    torch.manual_seed(0)
    return Classifier(Pooling(dim))(torch.randint(30, (6, 6))).detach()


def good():
    return apply(dim=1)


def bad():
    return apply(dim=0)
