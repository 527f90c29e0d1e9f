"""The port cuts an image into patches column by column, so that the positions of all patches are wrong."""

import torch
from torch import nn

FOUND_BY = "compare"
REPAIR = "return image.reshape(-1, 3, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(-1, 4, 48)"


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.mix = nn.Linear(48, 8), nn.Linear(4, 4)

    def cut(self, image):
        return image.reshape(-1, 3, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(-1, 4, 48)

    def forward(self, image):
        return self.mix(self.project(self.cut(image)).transpose(1, 2))


class PortedPatches(Patches):
    def cut(self, image):
        return image.reshape(-1, 3, 2, 4, 2, 4).permute(0, 4, 2, 1, 3, 5).reshape(-1, 4, 48)  # FAULT


def apply(kind):
    torch.manual_seed(0)
    model, image = kind(), torch.rand(2, 3, 8, 8)
    return model(image).detach()


def good():
    return apply(Patches)


def bad():
    return apply(PortedPatches)
