"""The mask of masked language modelling is drawn before the start token is put in front: it is one too short."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "does not match the shape of the indexed tensor"
START, MASKED = 1, 2


def corrupt(ids):
    chosen = torch.rand(ids.shape) < 0.3  # FAULT
    return ids.masked_fill(chosen, MASKED), chosen


def with_start(ids):
    return F.pad(ids, (1, 0), value=START)


def run():
    torch.manual_seed(0)
    ids = torch.randint(3, 40, (4, 9))
    corrupted, chosen = corrupt(ids)
    model = nn.Sequential(nn.Embedding(40, 16), nn.Linear(16, 40))
    logits = model(with_start(corrupted))
    loss = F.cross_entropy(logits[chosen], ids[chosen])
    loss.backward()
