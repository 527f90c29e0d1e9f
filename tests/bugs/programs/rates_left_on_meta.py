"""A model is built on the meta device; the rates of its rotary embedding are in no checkpoint, so they stay there."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "meta"
REPAIR = 'self.register_buffer("rates", 100.0 ** -torch.linspace(0, 1, width // 2))'


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("rates", 100.0 ** -torch.linspace(0, 1, width // 2), persistent=False)  # FAULT

    def forward(self, length):
        angles = torch.outer(torch.arange(length).float(), self.rates)
        return torch.cat([angles, angles], dim=-1)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rotary = Rotary(width)
        self.query = nn.Linear(width, width)

    def forward(self, x):
        angles = self.rotary(x.shape[1])
        left, right = self.query(x).chunk(2, dim=-1)
        return torch.cat([left, right], -1) * angles.cos() + torch.cat([-right, left], -1) * angles.sin()


def load(weights):
    with torch.device("meta"):
        model = Attention(8)
    model.load_state_dict(weights, assign=True)
    return model


def run():
    torch.manual_seed(0)
    model = load(Attention(8).state_dict())
    return model(torch.randn(2, 5, 8)).mean()
