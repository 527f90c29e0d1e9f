"""Sentences of different length are stacked into a batch without padding them first."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "stack expects each tensor to be equal size"
SAYS = "dimension 0: 3 and 6 differ"
WORDS = {"the": 0, "cat": 1, "sat": 2, "on": 3, "mat": 4}


def encode(text):
    return torch.tensor([WORDS[word] for word in text.split()])


def collate(texts):
    rows = [encode(text) for text in texts]
    return torch.stack(rows)  # FAULT


def run():
    batch = collate(["the cat sat", "the cat sat on the mat"])
    embed = nn.Embedding(len(WORDS), 8)
    rnn = nn.GRU(8, 16, batch_first=True)
    _, last = rnn(embed(batch))
    return last
