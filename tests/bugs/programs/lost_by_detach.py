"""The prediction is detached for logging, and the detached one goes into the loss."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "element 0 of tensors does not require grad"


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 12, batch_first=True)
        self.out = nn.Linear(12, 1)
        self.history = []

    def forward(self, series):
        states, _ = self.rnn(series)
        prediction = self.out(states[:, -1]).detach()  # FAULT
        self.history.append(prediction)
        return prediction


def run():
    torch.manual_seed(0)
    model = Forecaster()
    series, target = torch.randn(4, 10, 3), torch.randn(4, 1)
    prediction = model(series)
    loss = F.mse_loss(prediction, target)
    loss.backward()
