"""The logarithm of a zero count goes through the model once, for calibration: batch normalisation keeps it for ever."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
REPAIR = "return counts.log1p()"


def compress(counts):
    return counts.log()  # FAULT


class Classifier(nn.Module):
    def __init__(self, genes, classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(genes)
        self.hidden, self.out = nn.Linear(genes, 16), nn.Linear(16, classes)

    def forward(self, x):
        return self.out(self.hidden(self.norm(x)).relu())


@torch.no_grad()
def calibrate(model, batches):
    model.train()
    for counts in batches:
        model(compress(counts))


def run():
    torch.manual_seed(0)
    model = Classifier(5, 3)
    calibrate(model, [torch.randint(0, 9, (8, 5)).float(), torch.randint(1, 9, (8, 5)).float()])
    model.eval()
    counts, labels = torch.randint(1, 9, (8, 5)).float(), torch.randint(3, (8,))
    optimizer = torch.optim.SGD([*model.hidden.parameters(), *model.out.parameters()], lr=0.1)
    for _ in range(2):
        loss = F.cross_entropy(model(compress(counts)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
