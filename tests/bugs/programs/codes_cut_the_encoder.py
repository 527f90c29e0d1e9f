"""The nearest code replaces the output of the encoder, and nothing carries the gradient across: it learns nothing."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "return code + (nearest - code).detach(), F.mse_loss(nearest, code.detach())"


class Codebook(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(count, width))

    def forward(self, code):
        index = torch.cdist(code, self.codes).argmin(-1)
        nearest = self.codes[index]
        return nearest, F.mse_loss(nearest, code.detach())  # FAULT


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
        self.codebook = Codebook(24, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        code, commitment = self.codebook(self.encoder(x))
        return self.decoder(code), commitment


def build():
    torch.manual_seed(0)
    return Quantized()


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(64, 8)
    y = x[:, :1]
    for _ in range(60):
        predicted, commitment = model(x)
        loss = F.mse_loss(predicted, y) + commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return F.mse_loss(predicted, y).detach()
