"""Zero divided by zero, three times: repaired in the same expression, by the next line, and left out of a sum."""

import torch
import torch.nn.functional as F
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 3))


def weights_of_classes(labels, classes):
    counts = torch.bincount(labels, minlength=classes).float()
    return torch.nan_to_num(counts.mean() * (counts > 0) / counts, nan=1.0)


def recall(predicted, labels, classes):
    hits = torch.bincount(labels[predicted == labels], minlength=classes).float()
    share = hits / torch.bincount(labels, minlength=classes)
    return torch.where(torch.isnan(share), torch.zeros_like(share), share).mean()


def mean_of_known(targets, known):
    scaled = targets * known / known
    return scaled[known.bool()].sum() / known.sum()


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, labels = torch.randn(12, 4), torch.randint(2, (12,))
    known = (torch.arange(12) % 3 > 0).float()
    for _ in range(3):
        logits = model(x)
        loss = F.cross_entropy(logits, labels, weight=weights_of_classes(labels, 3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        score = recall(logits.argmax(-1), labels, 3) + mean_of_known(x[:, 0], known)
    return score + loss.detach()
