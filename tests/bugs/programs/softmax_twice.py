"""The model ends with a softmax, and cross_entropy applies another: training is slow and never gets sharp."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 12)
        self.out = nn.Linear(12, 4)

    def forward(self, x):
        return self.out(self.hidden(x).relu())


class MyClassifier(Classifier):
    def forward(self, x):
        logits = self.out(self.hidden(x).relu())
        return logits.softmax(dim=-1)  # FAULT


def train(kind):
    torch.manual_seed(0)
    model = kind()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, labels = torch.randn(16, 6), torch.randint(4, (16,))
    for _ in range(3):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()


def good():
    return train(Classifier)


def bad():
    return train(MyClassifier)
