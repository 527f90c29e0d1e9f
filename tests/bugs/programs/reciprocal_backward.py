"""A hand-written autograd function divides by its input in backward, where the forward had taken care of zeros."""

import torch
from torch import nn

FOUND_BY = "guard"


class SafeLog(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log(x.clamp(min=1e-6))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    scale = nn.Parameter(torch.ones(8))
    rates = scale * model(torch.randn(6, 4))
    loss = -SafeLog.apply(rates).mean()
    loss.backward()
    return scale.grad
