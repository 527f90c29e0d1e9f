"""A hand-written autograd function returns the gradient of its weight the wrong way round."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "returned an invalid gradient at index 1"


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        for_x = grad @ weight
        for_weight = x.t() @ grad  # FAULT
        return for_x, for_weight


class Layer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * 0.1)

    def forward(self, x):
        return LinearFunction.apply(x, self.weight).relu()


def run():
    torch.manual_seed(0)
    layer = Layer(3, 5)
    loss = layer(torch.randn(4, 3)).square().mean()
    loss.backward()
