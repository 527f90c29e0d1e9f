"""The image is padded to a multiple of the window, but by the remainder instead of what is missing."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "is invalid for input of size"
REPAIR = "missing = [-side % WINDOW for side in images.shape[-2:]]"
WINDOW = 8


def fill(images):
    missing = [side % WINDOW for side in images.shape[-2:]]  # FAULT
    return F.pad(images, (0, missing[1], 0, missing[0]))


def windows(features):
    batch, width, high, wide = features.shape
    parts = features.view(batch, width, high // WINDOW, WINDOW, wide // WINDOW, WINDOW)
    return parts.permute(0, 2, 4, 3, 5, 1).flatten(0, 2).flatten(1, 2)


class WindowAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.GroupNorm(1, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, images):
        features = self.norm(self.embed(fill(images)))
        tokens = windows(features)
        return self.attention(tokens, tokens, tokens, need_weights=False)[0]


def run():
    torch.manual_seed(0)
    model = WindowAttention(8)
    return [model(torch.rand(2, 3, *size)).mean() for size in ((16, 24), (20, 16), (18, 16))]
