"""log_softmax is taken over dimension 0, which is the batch: the samples compete, instead of the classes."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "return F.log_softmax(scores, dim=1)"


class Digits(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Conv2d(1, 8, 3, stride=2)
        self.head = nn.Linear(8 * 9, classes)

    def forward(self, images):
        features = self.body(images).relu().flatten(1)
        scores = self.head(features)
        return F.log_softmax(scores, dim=0)  # FAULT


def build():
    torch.manual_seed(0)
    return Digits(4)


def run(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    images = torch.rand(48, 1, 8, 8)
    quarters = torch.stack([part.mean((1, 2, 3)) for part in (images[..., :4, :4], images[..., :4, 4:])])
    labels = (quarters > 0.5).long().T @ torch.tensor([1, 2])
    for _ in range(5):
        for batch, wanted in zip(images.split(8), labels.split(8), strict=True):
            loss = F.nll_loss(model(batch), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        right = model(images).exp().gather(1, labels[:, None])
    return 1 - right.mean()
