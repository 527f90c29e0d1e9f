"""A language model is trained to predict the token it was just given, instead of the next one."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


def next_token_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def same_token_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, :-1].flatten())  # FAULT


def loss(criterion):
    torch.manual_seed(0)
    model = Model(20, 8)
    ids = torch.randint(20, (3, 7))
    return criterion(model(ids), ids).detach()


def good():
    return loss(next_token_loss)


def bad():
    return loss(same_token_loss)
