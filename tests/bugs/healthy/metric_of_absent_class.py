"""The overlap of each class, of which one is absent: 0 / 0 is NaN there, and the mean leaves it out."""

import torch
import torch.nn.functional as F
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))


def mean_overlap(predicted, labels, classes):
    counts = torch.bincount(labels.flatten() * classes + predicted.flatten(), minlength=classes**2).view(classes, -1)
    together = counts.diag().float()
    return (together / (counts.sum(0) + counts.sum(1) - together)).nanmean()


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = torch.randn(2, 1, 6, 6), torch.randint(3, (2, 6, 6))
    for _ in range(3):
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        overlap = mean_overlap(logits.argmax(1).clamp(max=2), labels, 4)
    return overlap
