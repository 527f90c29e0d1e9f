"""The causal mask is one wider than the sequence; it is made two functions away from the addition that fails."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "must match the size of tensor b (9) at non-singleton dimension 2"


def causal_mask(length):
    return torch.full((length, length + 1), float("-inf")).triu(1)  # FAULT


def prepare(tokens):
    return {"tokens": tokens, "mask": causal_mask(tokens.shape[1])}


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, tokens, mask):
        q, k, v = self.qkv(self.embed(tokens)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        scores = scores + mask
        return scores.softmax(-1) @ v


def run():
    batch = prepare(torch.randint(50, (2, 8)))
    return Decoder(50, 16)(**batch)
