"""Height, width, channels becomes channels, height, width by a reshape instead of a permute: the image is scrambled."""

import torch
from torch import nn

FOUND_BY = "compare"


def to_channels_first(image):
    return image.permute(2, 0, 1)


def to_channels_first_fast(image):
    height, width, channels = image.shape
    return image.reshape(channels, height, width)  # FAULT


def features(convert):
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3)
    image = torch.rand(8, 8, 3)
    return conv(convert(image).unsqueeze(0)).relu().amax((2, 3)).detach()


def good():
    return features(to_channels_first)


def bad():
    return features(to_channels_first_fast)
