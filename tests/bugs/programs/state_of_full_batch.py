"""The initial state has the batch size of the settings, and the last batch of the epoch is smaller."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOUND_BY = "explain"
RAISES = "Expected hidden"
REPAIR = "return torch.zeros(1, signals.shape[0], self.width)"
BATCH = 8


class Tagger(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.rnn = nn.GRU(3, width, batch_first=True)
        self.head = nn.Linear(width, 4)

    def begin(self, signals):
        return torch.zeros(1, BATCH, self.width)  # FAULT

    def forward(self, signals, state):
        outputs, _ = self.rnn(signals, state)
        return self.head(outputs[:, -1])


def run():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(20, 5, 3), torch.randint(4, (20,)))
    model = Tagger(16)
    optimizer = torch.optim.Adam(model.parameters())
    for signals, labels in DataLoader(data, batch_size=BATCH):
        state = model.begin(signals)
        loss = F.cross_entropy(model(signals, state), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
