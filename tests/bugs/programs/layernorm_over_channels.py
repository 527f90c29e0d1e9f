"""LayerNorm normalises the last dimension, and here the channels are the second one."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Given normalized_shape=[12]"
SAYS = "12 is dimension -3"


class ConvBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.pointwise = nn.Conv2d(channels, 4 * channels, 1)
        self.project = nn.Conv2d(4 * channels, channels, 1)

    def forward(self, x):
        y = self.depthwise(x)
        y = self.norm(y)  # FAULT
        y = self.project(self.pointwise(y).relu())
        return x + y


def run():
    images = torch.randn(2, 12, 8, 8)
    return ConvBlock(12)(images)
