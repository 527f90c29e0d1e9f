"""The output layer should share its weight with the embedding; after the port it has one of its own."""

import torch
from torch import nn

FOUND_BY = "compare"


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width, tied):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        hidden = self.body(self.embed(ids)).tanh()
        return self.head(hidden)  # FAULT


def apply(tied):
    torch.manual_seed(0)
    model = LanguageModel(30, 8, tied)
    ids = torch.randint(30, (2, 6))
    return model(ids).detach()


def good():
    return apply(tied=True)


def bad():
    return apply(tied=False)
