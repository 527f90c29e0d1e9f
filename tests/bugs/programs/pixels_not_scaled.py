"""Bytes become floats without being divided by 255: the units of the network saturate, and hardly learn."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "return torch.from_numpy(self.images[index]).float().flatten() / 255, self.labels[index]"


class Pictures(Dataset):
    def __init__(self, count):
        self.images = np.random.default_rng(0).integers(0, 256, (count, 6, 6), dtype=np.uint8)
        self.labels = (self.images[:, :3].mean((1, 2)) > self.images[:, 3:].mean((1, 2))).astype(np.int64)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index]).float().flatten(), self.labels[index]  # FAULT


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(36, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 2))


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Pictures(64), batch_size=16)
    for _ in range(40):
        total = torch.zeros(())
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
    return total / len(loader)
