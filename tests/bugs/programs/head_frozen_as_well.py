"""The new head is attached before the body is frozen, and all parameters of the model are frozen with it."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "element 0 of tensors does not require grad"
REPAIR = "for parameter in model.body.parameters():"


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(x))


def freeze(model):
    for parameter in model.parameters():  # FAULT
        parameter.requires_grad_(False)


def fine_tuned(pretrained, classes):
    model = Classifier(classes)
    model.body.load_state_dict(pretrained.body.state_dict())
    freeze(model)
    return model


def run():
    torch.manual_seed(0)
    model = fine_tuned(Classifier(10), classes=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, labels = torch.randn(12, 8), torch.randint(3, (12,))
    for batch, wanted in zip(x.split(4), labels.split(4), strict=True):
        loss = F.cross_entropy(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
