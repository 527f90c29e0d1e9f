"""The model is cast to fp16, and a tensor that forward makes by itself stays float32."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "must have the same dtype"


class TimeConditioned(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.time = nn.Linear(width, width)
        self.body = nn.Linear(width, width)

    def waves(self, step):
        rates = torch.exp(-torch.arange(self.width // 2) / self.width)
        angles = step[:, None].float() * rates
        return torch.cat([angles.sin(), angles.cos()], dim=-1)  # FAULT

    def forward(self, x, step):
        return self.body(x) + self.time(self.waves(step))


def run():
    torch.manual_seed(0)
    model = TimeConditioned(8).half()
    x = torch.randn(2, 8, dtype=torch.float16)
    return model(x, torch.tensor([3, 50]))
