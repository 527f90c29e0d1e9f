"""The last batch of the epoch holds one sample only, and batch normalisation cannot train on one."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Expected more than 1 value per channel when training"
SAYS = "drop_last=True"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(5, 16)
        self.norm = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        h = self.norm(self.hidden(x))  # FAULT
        return self.out(h.relu())


def run():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(9, 5)
    for batch in data.split(4):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
