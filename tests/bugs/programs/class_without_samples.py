"""Accuracy for each class, in a batch in which one class does not occur: zero divided by zero."""

import torch
from torch import nn

FOUND_BY = "guard"
CLASSES = 4


def accuracy_by_class(predicted, labels):
    hits = torch.zeros(CLASSES)
    counts = torch.zeros(CLASSES)
    hits.index_add_(0, labels, (predicted == labels).float())
    counts.index_add_(0, labels, torch.ones(len(labels)))
    return hits / counts  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Linear(5, CLASSES)
    x = torch.randn(10, 5)
    labels = torch.randint(CLASSES - 1, (10,))
    with torch.no_grad():
        predicted = model(x).argmax(-1)
    return accuracy_by_class(predicted, labels).mean()
