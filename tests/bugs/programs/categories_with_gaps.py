"""The categories of a detection data set are numbered with gaps, and the head has one output for each that is used."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

FOUND_BY = "explain"
RAISES = "is out of bounds"
REPAIR = 'labels = [torch.tensor([CATEGORIES.index(box["category"]) for box in sample["boxes"]]) for sample in samples]'
CATEGORIES = [1, 2, 3, 5, 8]


def sample(size, categories):
    return {"image": torch.randn(3, size, size), "boxes": [{"category": category} for category in categories]}


def collate(samples):
    images = torch.stack([sample["image"] for sample in samples])
    labels = [torch.tensor([box["category"] for box in sample["boxes"]]) for sample in samples]  # FAULT
    return {"images": images, "labels": labels}


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3, stride=2)
        self.head = nn.Linear(8, len(CATEGORIES))

    def forward(self, images, counts):
        features = self.body(images).relu().mean((2, 3))
        return self.head(features.repeat_interleave(counts, dim=0))


def run():
    torch.manual_seed(0)
    data = [sample(16, [1, 3]), sample(16, [2]), sample(16, [5, 8, 1]), sample(16, [3])]
    model = Detector()
    for batch in DataLoader(data, batch_size=2, collate_fn=collate):
        counts = torch.tensor([len(labels) for labels in batch["labels"]])
        targets = torch.cat(batch["labels"])
        loss = F.cross_entropy(model(batch["images"], counts), targets)
        loss.backward()
    return loss
