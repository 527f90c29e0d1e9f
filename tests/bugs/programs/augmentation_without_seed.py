"""torch is seeded, and the jitter comes from NumPy, which is not: two equal runs see other images."""

import numpy as np
import torch
from torch import nn

FOUND_BY = "compare"
TWICE = True


def jitter(images, rng):
    factors = rng.uniform(0.5, 1.5, size=(len(images), 1, 1, 1)).astype(np.float32)
    return images * torch.from_numpy(factors)  # FAULT


def embed():
    torch.manual_seed(0)
    rng = np.random.default_rng()
    conv = nn.Conv2d(3, 4, 3)
    images = torch.rand(4, 3, 8, 8)
    return conv(jitter(images, rng)).relu().mean((2, 3)).detach()


good = bad = embed
