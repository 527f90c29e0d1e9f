"""squeeze() without a dimension is meant for the last ones: in the last batch of one image it takes the batch too."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOUND_BY = "explain"
RAISES = "Tensors must have same number of dimensions"
REPAIR = "return self.pool(self.layers(images)).flatten(1)"


class Body(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3))
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, images):
        return self.pool(self.layers(images)).squeeze()  # FAULT


class Price(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = Body(width)
        self.facts = nn.Linear(4, width)
        self.head = nn.Linear(2 * width, 1)

    def forward(self, images, facts):
        seen = self.body(images).relu()
        known = self.facts(facts).relu()
        return self.head(torch.cat([seen, known], dim=-1))


def run():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(9, 3, 8, 8), torch.randn(9, 4))
    model = Price(8)
    return torch.cat([model(images, facts) for images, facts in DataLoader(data, batch_size=4)])
