"""The queue of negative samples is overwritten in place before backward, which still needs it as it was."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "has been modified by an inplace operation"
REPAIR = "self.queue = torch.cat([keys, self.queue[: -len(keys)]])"


class Contrast(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.query, self.key = nn.Linear(8, width), nn.Linear(8, width)
        self.register_buffer("queue", F.normalize(torch.randn(length, width), dim=-1))

    def enqueue(self, keys):
        self.queue[: len(keys)] = keys  # FAULT

    def forward(self, left, right):
        queries = F.normalize(self.query(left), dim=-1)
        with torch.no_grad():
            keys = F.normalize(self.key(right), dim=-1)
        positive = (queries * keys).sum(-1, keepdim=True)
        negative = queries @ self.queue.T
        self.enqueue(keys)
        return torch.cat([positive, negative], dim=1) / 0.07


def run():
    torch.manual_seed(0)
    model = Contrast(6, 16)
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.1)
    for images in torch.randn(3, 4, 8):
        logits = model(images, images + 0.1)
        loss = F.cross_entropy(logits, torch.zeros(len(images), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
