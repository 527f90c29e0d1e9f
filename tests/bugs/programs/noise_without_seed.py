"""Everything is seeded but the generator of the noise: two equal runs differ."""

import torch
from torch import nn

FOUND_BY = "compare"
TWICE = True


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(width, 16)
        self.out = nn.Linear(16, width)

    def forward(self, x):
        return self.out(self.hidden(x).relu())


def train():
    torch.manual_seed(0)
    model = Denoiser(6)
    optimizer = torch.optim.Adam(model.parameters())
    generator = torch.Generator()
    generator.seed()
    clean = torch.randn(8, 6)
    for _ in range(2):
        noise = torch.randn(clean.shape, generator=generator)  # FAULT
        loss = (model(clean + noise) - clean).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


good = bad = train
