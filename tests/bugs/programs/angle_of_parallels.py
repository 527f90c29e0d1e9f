"""The angle between two directions as a loss: at a cosine of one the gradient of acos is infinite."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"


def angle(a, b):
    cosine = (F.normalize(a, dim=-1) * F.normalize(b, dim=-1)).sum(-1)
    return torch.acos(cosine).mean()  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Linear(2, 3, bias=False)
    x = torch.eye(2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    wanted = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    loss = angle(model(x), wanted)
    loss.backward()
    return model.weight.grad
