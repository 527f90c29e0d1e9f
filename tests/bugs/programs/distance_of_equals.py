"""Euclidean distance by hand: where anchor and positive are the same, the gradient of the square root is infinite."""

import torch
from torch import nn

FOUND_BY = "guard"


def distance(a, b):
    squared = (a - b).square().sum(dim=-1)
    return squared.sqrt()  # FAULT


def triplet_loss(anchor, positive, negative, margin=1.0):
    return (distance(anchor, positive) - distance(anchor, negative) + margin).relu().mean()


def run():
    torch.manual_seed(0)
    encoder = nn.Linear(6, 4)
    images = torch.randn(5, 6)
    positives = images + 0.1 * torch.randn(5, 6)
    positives[3] = images[3]  # a class with a single image is its own positive
    negatives = images.flip(0)
    loss = triplet_loss(encoder(images), encoder(positives), encoder(negatives))
    loss.backward()
    return encoder.weight.grad
