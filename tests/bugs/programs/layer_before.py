"""The converter counts the layers of the original from one: each layer of the port has the weights of another one."""

import torch
from torch import nn

FOUND_BY = "compare"
REPAIR = "layer.load_state_dict(original.layers[number].state_dict())"


class Tower(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


def convert(original):
    port = Tower(8, 4)
    port.head.load_state_dict(original.head.state_dict())
    for number, layer in enumerate(port.layers):
        layer.load_state_dict(original.layers[max(number - 1, 0)].state_dict())  # FAULT
    return port


def good():
    torch.manual_seed(0)
    model, x = Tower(8, 4), torch.randn(4, 8)
    return model(x).detach()


def bad():
    torch.manual_seed(0)
    model, x = Tower(8, 4), torch.randn(4, 8)
    return convert(model)(x).detach()
