"""In scaled_dot_product_attention True means attend; the mask of the old module meant the opposite."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def attend(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def batch():
    torch.manual_seed(0)
    encoder = Encoder(8)
    x = torch.randn(3, 6, 8)
    padding = torch.arange(6) >= torch.tensor([[5], [2], [4]])
    return encoder, x, padding


def good():
    encoder, x, padding = batch()
    return encoder.attend(x, ~padding.unsqueeze(1)).detach()


def bad():
    encoder, x, padding = batch()
    return encoder.attend(x, padding.unsqueeze(1)).detach()  # FAULT
