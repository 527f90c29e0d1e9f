"""A padding mask of batch times length is given as attn_mask, which is length times length."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "attn_mask"
SAYS = "key_padding_mask"


class Encoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width, padding_idx=0)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.embed(ids)
        padding = ids == 0
        mixed, _ = self.attention(x, x, x, attn_mask=padding, need_weights=False)  # FAULT
        return self.norm(x + mixed)


def run():
    torch.manual_seed(0)
    ids = torch.randint(1, 40, (3, 6))
    ids[1, 4:] = 0
    return Encoder(40, 8)(ids)
