"""Sentences are sorted by length before they are packed, but the shortest comes first."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

FOUND_BY = "explain"
RAISES = "must be sorted in decreasing order"
REPAIR = "order = lengths.argsort(descending=True)"


def collate(samples):
    lengths = torch.tensor([len(words) for words, _ in samples])
    order = lengths.argsort()  # FAULT
    words = pad_sequence([words for words, _ in samples], batch_first=True)
    labels = torch.tensor([label for _, label in samples])
    return words[order], lengths[order], labels[order]


class Sentiment(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True)
        _, (last, _) = self.rnn(packed)
        return self.head(last[-1])


def run():
    torch.manual_seed(0)
    samples = [(torch.randint(30, (length,)), length % 2) for length in (4, 9, 2, 6, 7, 3)]
    model = Sentiment(30, 8)
    for words, lengths, labels in DataLoader(samples, batch_size=3, collate_fn=collate):
        loss = nn.functional.cross_entropy(model(words, lengths), labels)
    return loss
