"""The warm-up divides integers: the learning rate is zero for the first hundred steps, and nothing is learnt."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "unchanged"
NAMES = "body.weight"
WARMUP = 100


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x).relu())


def build():
    torch.manual_seed(0)
    return Model()


def run(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) // WARMUP))
    x, labels = torch.randn(8, 5), torch.randint(2, (8,))
    for _ in range(6):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
