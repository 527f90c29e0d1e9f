"""A video is permuted as if it were an image: one dimension is missing in the permutation."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "permute(sparse_coo): number of dimensions in the tensor input does not match"
SAYS = "the tensor has 5 dimensions, the order names 4"


class VideoNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(3, 4, (1, 3, 3), padding=(0, 1, 1))
        self.head = nn.Linear(4, 2)

    def forward(self, clip):
        x = self.conv(clip).relu()
        return self.head(x.mean((2, 3, 4)))


def to_model(frames):
    frames = frames.float() / 255
    return frames.permute(0, 3, 1, 2)  # FAULT


def run():
    torch.manual_seed(0)
    frames = torch.randint(256, (2, 5, 12, 12, 3), dtype=torch.uint8)
    return VideoNet()(to_model(frames))
