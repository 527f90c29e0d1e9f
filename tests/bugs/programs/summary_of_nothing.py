"""The summary of the sequence is read from the first state, which is zero, and not from the last one."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "return self.head(state)"


class Reader(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.cell = nn.GRUCell(width, 16)
        self.head = nn.Linear(16, classes)

    def forward(self, sequence):
        start = sequence.new_zeros(len(sequence), 16)
        state = start
        for step in sequence.unbind(1):
            state = self.cell(step, state)
        return self.head(start)  # FAULT


def build():
    torch.manual_seed(0)
    return Reader(4, 3)


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    criterion = nn.CrossEntropyLoss()
    for _ in range(60):
        x = torch.randn(32, 5, 4)
        labels = x[:, -1, :3].argmax(-1)
        loss = criterion(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return F.cross_entropy(model(x), labels).detach()
