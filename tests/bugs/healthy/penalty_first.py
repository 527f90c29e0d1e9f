"""A penalty on the weights has a backward pass of its own before the loss, which reads its inputs in three ways."""

import torch
import torch.nn.functional as F
from torch import nn


class Memory(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(words, width))
        self.queries = nn.Parameter(torch.randn(3, width))
        self.head = nn.Linear(width, 2)
        self.register_buffer("last", torch.zeros(words))

    def forward(self, ids):
        mean = torch.stack([self.rows[row].mean(0) for row in ids.tolist()])
        self.last[ids.flatten()] = 1.0
        queries = self.queries.expand(len(ids), -1, -1)
        return self.head(mean + queries.mean(1))


def build():
    torch.manual_seed(0)
    return Memory(9, 6)


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        ids = torch.randint(9, (8, 4))
        optimizer.zero_grad()
        penalty = 1e-3 * sum(weight.square().sum() for weight in model.parameters())
        penalty.backward()
        loss = F.cross_entropy(model(ids), ids.sum(-1) % 2)
        loss.backward()
        optimizer.step()
    return loss.detach()
