"""A checkpoint with 10 classes is loaded into a model with 3."""

import io

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "size mismatch for head.weight"
SAYS = "head.weight is [10, 16] in the checkpoint and [3, 16] in the model"


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(x).relu())


def pretrained():
    file = io.BytesIO()
    torch.save(Classifier(classes=10).state_dict(), file)
    file.seek(0)
    return file


def run():
    torch.manual_seed(0)
    model = Classifier(classes=3)
    weights = torch.load(pretrained(), weights_only=True)
    model.load_state_dict(weights)  # FAULT
    return model(torch.randn(2, 8))
