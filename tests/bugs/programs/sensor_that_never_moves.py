"""Series are standardised in NumPy when the data set is built, and one sensor never moved: zero divided by zero."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FOUND_BY = "guard"
REPAIR = "return (series - mean) / (deviation + 1e-6)"


def standardize(series):
    mean, deviation = series.mean(axis=0), series.std(axis=0)
    return (series - mean) / deviation  # FAULT


class Windows(Dataset):
    def __init__(self, series, length):
        self.series, self.length = standardize(series).astype(np.float32), length

    def __len__(self):
        return len(self.series) - self.length

    def __getitem__(self, start):
        stop = start + self.length
        return self.series[start:stop], self.series[stop, :1]


class Forecast(nn.Module):
    def __init__(self, sensors, width):
        super().__init__()
        self.rnn = nn.GRU(sensors, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, windows):
        return self.head(self.rnn(windows)[0][:, -1])


def run():
    torch.manual_seed(0)
    series = np.random.default_rng(0).normal(size=(40, 3))
    series[:, 2] = 21.5
    model = Forecast(3, 8)
    for windows, following in DataLoader(Windows(series, 6), batch_size=10):
        loss = (model(windows) - following).square().mean()
        loss.backward()
    return loss
