"""Three projections are fused into one weight, and keys come before queries: attention looks from the wrong side."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"
REPAIR = "fused = torch.cat([split.query.weight, split.key.weight, split.value.weight])"


class Split(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        mixed = F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), is_causal=True)
        return self.out(mixed)


class Fused(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def fuse(split, width):
    port = Fused(width)
    fused = torch.cat([split.key.weight, split.query.weight, split.value.weight])  # FAULT
    port.load_state_dict({"qkv.weight": fused, "out.weight": split.out.weight, "out.bias": split.out.bias})
    return port


def good():
    torch.manual_seed(0)
    model, x = Split(8), torch.randn(2, 6, 8)
    return model(x).detach()


def bad():
    torch.manual_seed(0)
    model, x = Split(8), torch.randn(2, 6, 8)
    return fuse(model, 8)(x).detach()
