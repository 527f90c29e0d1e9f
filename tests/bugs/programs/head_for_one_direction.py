"""The LSTM was made bidirectional, and the head still expects the features of one direction."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "mat1 and mat2 shapes cannot be multiplied (6x48 and 24x5)"
REPAIR = "self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(2 * width, tags))"


class Encoder(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.rnn = nn.LSTM(features, width, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        outputs, _ = self.rnn(self.norm(x))
        return outputs


class Tagger(nn.Module):
    def __init__(self, features, width, tags):
        super().__init__()
        self.encoder = Encoder(features, width)
        self.score = nn.Linear(2 * width, 1)
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, tags))  # FAULT

    def pool(self, states):
        weights = self.score(states).softmax(dim=1)
        return (weights * states).sum(dim=1)

    def forward(self, x):
        return self.head(self.pool(self.encoder(x)))


def run():
    torch.manual_seed(0)
    model = Tagger(features=10, width=24, tags=5)
    return model(torch.randn(6, 7, 10)).softmax(-1)
