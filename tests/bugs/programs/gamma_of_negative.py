"""Gamma correction after the image was normalised to mean zero: a negative number has no fractional power."""

import torch
from torch import nn

FOUND_BY = "guard"


def normalize(images):
    return (images - 0.5) / 0.25


def gamma(images, exponent=0.45):
    return images**exponent  # FAULT


def run():
    torch.manual_seed(0)
    images = torch.rand(2, 3, 8, 8)
    augmented = gamma(normalize(images))
    model = nn.Conv2d(3, 4, 3)
    return model(augmented).mean()
