"""Token vectors are averaged over the tokens that are not padding; one document has none."""

import torch
from torch import nn

FOUND_BY = "guard"
PAD = 0


class BagOfWords(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.out = nn.Linear(width, 2)

    def forward(self, ids):
        real = (ids != PAD).float().unsqueeze(-1)
        total = (self.embed(ids) * real).sum(dim=1)
        mean = total / real.sum(dim=1)  # FAULT
        return self.out(mean)


def run():
    torch.manual_seed(0)
    ids = torch.randint(1, 30, (4, 6))
    ids[2] = PAD
    return BagOfWords(30, 8)(ids)
