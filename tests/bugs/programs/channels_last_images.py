"""Images come as height, width, channels, and nobody permuted them: the convolution sees 24 channels."""

import numpy as np
import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "to have 3 channels, but got 24 channels instead"


def read_image(seed):
    return np.random.default_rng(seed).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def collate(images):
    return torch.stack([torch.from_numpy(image) for image in images]).float() / 255  # FAULT


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, 10)

    def forward(self, images):
        return self.head(self.stem(images).relu().mean((2, 3)))


def run():
    batch = collate([read_image(seed) for seed in range(4)])
    return Net()(batch)
