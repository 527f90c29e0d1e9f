"""A model that does what the originals of the drop-ins missed or could not survive."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Everything(nn.Module):
    """Factories, indexing, in-place, functions of torch, and tensors of every kind."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.unusual(self.usual(self.norm(x)))

    def usual(self, x):
        x = x + torch.zeros(4)
        x[:, 0] = torch.arange(2).float()
        x += 1
        x.mul_(2)
        x = 1 - x
        x = torch.cat([x, x[1:]], dim=0)
        x = F.softmax(x, dim=-1) + torch.softmax(x, -1)
        heads = x.view(1, 1, 3, 4)
        x = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        first, _ = x.topk(2, dim=-1)
        return torch.where(first > 0.5, first, -first).flatten()

    def unusual(self, x):
        x.to(torch.float8_e4m3fn).float()
        x.to(torch.int8).sum()
        (x > 0).any()
        torch.complex(x, x).abs()
        torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()
        torch.empty(0, 3).sum(0)
        torch.ones(()).bfloat16()
        torch.eye(2).to_sparse() @ torch.ones(2, 1)
        x.to(torch.uint16)
        torch.empty(2, 3, device="meta").t()
        return x


model, x = Everything(), torch.ones(2, 4)
