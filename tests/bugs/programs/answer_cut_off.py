"""Long prompts are cut at the end, where the answer is: no label is left in the batch, and its mean loss is NaN."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

FOUND_BY = "guard"
REPAIR = "return torch.cat([prompt, answer])[-LENGTH:], torch.cat([ignored, answer])[-LENGTH:]"
LENGTH = 12


def encode(prompt, answer):
    ignored = torch.full_like(prompt, -100)
    return torch.cat([prompt, answer])[:LENGTH], torch.cat([ignored, answer])[:LENGTH]  # FAULT


def collate(samples):
    ids, labels = zip(*[encode(*sample) for sample in samples], strict=True)
    return pad_sequence(ids, True), pad_sequence(labels, True, padding_value=-100)


class LanguageModel(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


def run():
    torch.manual_seed(0)
    samples = [(torch.randint(30, (prompt,)), torch.randint(30, (4,))) for prompt in (5, 8, 15, 12)]
    model = LanguageModel(30, 8)
    for ids, labels in DataLoader(samples, batch_size=2, collate_fn=collate):
        logits = model(ids)[:, :-1]
        loss = F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        loss.backward()
    return loss
