"""The LSTM wants time first, and the initial state takes its batch size from the wrong dimension."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Expected hidden[0] size (1, 4, 12), got [1, 9, 12]"


class Tagger(nn.Module):
    def __init__(self, vocabulary, width, tags):
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width)
        self.out = nn.Linear(width, tags)

    def start(self, ids):
        zeros = torch.zeros(1, ids.shape[0], self.width)  # FAULT
        return zeros, zeros.clone()

    def forward(self, ids):
        states, _ = self.rnn(self.embed(ids), self.start(ids))
        return self.out(states)


def run():
    torch.manual_seed(0)
    ids = torch.randint(40, (9, 4))
    return Tagger(40, 12, 5)(ids)
