"""An LSTM was replaced by a GRU, which returns one state instead of two."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "not enough values to unpack"
SAYS = "one value for two names"


class Sentiment(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, 2)

    def forward(self, ids):
        _, (hidden, cell) = self.rnn(self.embed(ids))  # FAULT
        return self.out(hidden[-1] + cell[-1])


def run():
    torch.manual_seed(0)
    model = Sentiment(50, 12)
    ids = torch.randint(50, (4, 7))
    return model(ids).softmax(-1)
