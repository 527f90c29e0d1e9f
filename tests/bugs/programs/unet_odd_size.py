"""A U-Net is given an image whose size is odd: after down and up again the skip connection is one pixel larger."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "Sizes of tensors must match except in dimension 1"
SAYS = "dimension 2: 21 and 20 differ"


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, padding=1)
        self.middle = nn.Conv2d(4, 4, 3, padding=1)
        self.up = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, image):
        skip = self.down(image).relu()
        deep = self.middle(F.max_pool2d(skip, 2)).relu()
        deep = F.interpolate(deep, scale_factor=2)
        joined = torch.cat([skip, deep], dim=1)  # FAULT
        return self.up(joined)


def run():
    scan = torch.rand(1, 1, 21, 28)
    return TinyUNet()(scan).sigmoid()
