"""Only the backbone should be frozen, but the head is called inside the no_grad block as well."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "element 0 of tensors does not require grad"


class LinearProbe(nn.Module):
    def __init__(self, backbone, width, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
            logits = self.head(features)  # FAULT
        return logits


def run():
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
    probe = LinearProbe(backbone, 16, 3)
    optimizer = torch.optim.SGD(probe.head.parameters(), lr=0.1)
    loss = F.cross_entropy(probe(torch.randn(8, 6)), torch.randint(3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
