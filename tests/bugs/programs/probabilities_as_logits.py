"""The last layer of the network is a softmax, and the trainer takes the cross entropy, which has its own."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "nn.Identity(),"


def build():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 24),
        nn.ReLU(),
        nn.Linear(24, 5),
        nn.Softmax(dim=-1),  # FAULT
    )


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(self, x, labels):
        loss = F.cross_entropy(self.model(x), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self, x, labels):
        return F.cross_entropy(self.model(x), labels)


def run(model):
    trainer = Trainer(model)
    x = torch.randn(40, 6)
    labels = x[:, :5].argmax(-1)
    for _ in range(60):
        trainer.step(x, labels)
    return trainer.evaluate(x, labels)
