"""The converter turns the weights whose shape does not fit; a square one fits either way, and stays as it was."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "compare"
RENAME = {"wide": "fc", "square": "proj"}
REPAIR = "turned = value.T if value.dim() == 2 else value"


class Table(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.2)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight)


class Original(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.square = Table(6, 10), Table(10, 10)

    def forward(self, x):
        return self.square(F.gelu(self.wide(x)))


class Port(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.proj = nn.Linear(6, 10), nn.Linear(10, 10)

    def forward(self, x):
        return self.proj(F.gelu(self.fc(x)))


def convert(weights, model):
    for (name, wanted), value in zip(model.state_dict().items(), weights.values(), strict=True):
        turned = value if value.shape == wanted.shape else value.T  # FAULT
        model.get_parameter(name).data = turned.clone()
    return model


def good():
    torch.manual_seed(0)
    return Original()(torch.randn(4, 6)).detach()


def bad():
    torch.manual_seed(0)
    original, x = Original(), torch.randn(4, 6)
    return convert(original.state_dict(), Port())(x).detach()
