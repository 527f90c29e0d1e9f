"""A variational model of sequences of different lengths: an LSTM over packed steps, noise, and a divergence."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Autoencoder(nn.Module):
    def __init__(self, width, hidden, code):
        super().__init__()
        self.encoder = nn.LSTM(width, hidden, batch_first=True)
        self.mean, self.logarithm = nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.decoder = nn.Linear(code, width)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        mean, logarithm = self.mean(states), self.logarithm(states)
        code = mean + torch.randn_like(mean) * (logarithm / 2).exp()
        return self.decoder(code).sigmoid(), -(1 + logarithm - mean.square() - logarithm.exp()).mean() / 2


def build():
    torch.manual_seed(0)
    return Autoencoder(4, 6, 2)


def run(model):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    x, lengths = torch.rand(3, 5, 4), torch.tensor([5, 2, 3])
    for _ in range(3):
        again, divergence = model(x, lengths)
        loss = nn.functional.binary_cross_entropy(again, x) + divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
