"""Accuracy as the mean of an integer tensor: there is no mean of integers."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "could not infer output dtype"
SAYS = "hits holds integers (i64)"


def accuracy(logits, labels):
    hits = (logits.argmax(dim=-1) == labels).long()
    return hits.mean()  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    data = torch.randn(16, 8)
    labels = torch.randint(3, (16,))
    model.eval()
    with torch.no_grad():
        logits = model(data)
    return accuracy(logits, labels)
