"""RMSNorm with the epsilon added after the square root instead of before it: small activations come out larger."""

import torch
from torch import nn

FOUND_BY = "compare"


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        power = x.square().mean(-1, keepdim=True)
        return x / torch.sqrt(power + self.eps) * self.weight


class MyRMSNorm(RMSNorm):
    def forward(self, x):
        power = x.square().mean(-1, keepdim=True)
        return x / (torch.sqrt(power) + self.eps) * self.weight  # FAULT


def apply(norm):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8, bias=False), norm(8), nn.Linear(8, 2))
    return model(torch.randn(4, 8) * 1e-3).detach()


def good():
    return apply(RMSNorm)


def bad():
    return apply(MyRMSNorm)
