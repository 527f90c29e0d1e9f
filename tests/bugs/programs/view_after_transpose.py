"""The heads are merged with view after a transpose: the tensor is not contiguous any more."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "view size is not compatible"
SAYS = "the strides of the tensor are 96, 4, 24, 1"


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v
        merged = mixed.transpose(1, 2).view(batch, length, width)  # FAULT
        return self.out(merged)


def run():
    torch.manual_seed(0)
    return Attention(16, 4)(torch.randn(2, 6, 16))
