"""The border of each scan is cut off in the data set: the image then has fewer patches than there are positions."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FOUND_BY = "explain"
RAISES = "The size of tensor a (50) must match the size of tensor b (65)"
REPAIR = "return image"
SIDE, PATCH = 32, 4


def clean(image):
    return image[:, 1:-1, 1:-1]  # FAULT


class Scans(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"image": clean(self.images[index]), "label": index % 3}


class Transformer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patches = nn.Conv2d(1, width, PATCH, stride=PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2 + 1, width))
        self.head = nn.Linear(width, 3)

    def forward(self, images):
        patches = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(images), -1, -1), patches], dim=1)
        return self.head((tokens + self.positions)[:, 0])


def run():
    torch.manual_seed(0)
    data = Scans(torch.rand(6, 1, SIDE, SIDE))
    model = Transformer(8)
    return [model(batch["image"]) for batch in DataLoader(data, batch_size=3)]
