"""Sentences are padded with an id that the embedding does not have: it is as large as the vocabulary."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "index out of range in self"
VOCABULARY = 60


def pad(sentence, length):
    return F.pad(sentence, (0, length - len(sentence)), value=VOCABULARY)  # FAULT


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(0))


def run():
    sentence = torch.tensor([4, 19, 33, 7])
    ids = pad(sentence, 12)
    return Classifier()(ids)
