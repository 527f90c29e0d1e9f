"""The pretrained weights are assigned after the optimizer was made: it goes on moving the parameters from before."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "model.load_state_dict(weights)"


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))


def restore(model, weights):
    model.load_state_dict(weights, assign=True)  # FAULT
    return model.train()


def pretrained():
    layers = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    return {name: weight.clone() for name, weight in layers.state_dict().items()}


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    restore(model, pretrained())
    x = torch.randn(30, 5)
    labels = x[:, :3].argmax(-1)
    for _ in range(30):
        loss = F.cross_entropy(model(x), labels)
        model.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()
