"""A row of the table has a decimal comma, which is read as nothing: its value is a hundred times too large."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = 'return float(text.replace(",", "."))'
TABLE = [f"{1.5 + 0.02 * row:.2f};{50 + row}" for row in range(40)]
TABLE[29] = TABLE[29].replace(".", ",")


def number(text):
    return float(text.replace(",", ""))  # FAULT


def collate(rows):
    values = torch.tensor([[number(text) for text in row.split(";")] for row in rows])
    return values[:, :1], values[:, 1:] / 50


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))


def run(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        for heights, weights in DataLoader(TABLE, batch_size=4, collate_fn=collate):
            loss = F.mse_loss(model(heights), weights)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
    return loss.detach()
