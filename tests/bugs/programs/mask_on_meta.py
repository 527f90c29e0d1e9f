"""The model was built on the meta device and a buffer was forgotten when its weights were loaded."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Tensor on device meta is not on the expected device cpu"


class Attention(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        bias = torch.zeros(context, context, device="meta")  # FAULT
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) + self.bias
        return scores.softmax(-1) @ v


def run():
    attention = Attention(8, 6)
    weights = {"qkv.weight": torch.randn(24, 8), "qkv.bias": torch.zeros(24)}
    attention.load_state_dict(weights)
    return attention(torch.randn(2, 6, 8))
