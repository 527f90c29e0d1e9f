"""The mask marks the padding instead of the words: all words are multiplied by zero, and the loss ignores the input."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = 'return {"ids": ids, "mask": (ids != PADDING).float(), "labels": torch.tensor(labels)}'
PADDING = 0


def collate(samples):
    rows, labels = zip(*samples, strict=True)
    ids = pad_sequence(rows, batch_first=True, padding_value=PADDING)
    return {"ids": ids, "mask": (ids == PADDING).float(), "labels": torch.tensor(labels)}  # FAULT


class BagOfWords(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=PADDING)
        self.head = nn.Linear(width, 2)

    def forward(self, ids, mask):
        vectors = self.embed(ids) * mask[..., None]
        return self.head(vectors.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))


def build():
    torch.manual_seed(0)
    return BagOfWords(20, 8)


def run(model):
    rows = [torch.randint(1, 20, (length,)) for length in (3, 5, 4, 6) * 4]
    data = [(row, int(row.float().mean() > 10)) for row in rows]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(10):
        for batch in DataLoader(data, batch_size=8, collate_fn=collate):
            loss = F.cross_entropy(model(batch["ids"], batch["mask"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.detach()
