"""The encoder is frozen while the head warms up and trains with it afterwards; the teacher stays frozen for good."""

import torch
import torch.nn.functional as F
from torch import nn


class Student(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, width), nn.GELU())
        self.teacher = nn.Linear(5, width).requires_grad_(False)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        code = self.encoder(x)
        return self.head(code), F.mse_loss(code, self.teacher(x))


def build():
    torch.manual_seed(0)
    return Student(10)


def run(model):
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.01)
    x, labels = torch.randn(12, 5), torch.randint(3, (12,))
    for step in range(8):
        model.encoder.requires_grad_(step >= 4)
        logits, distance = model(x)
        loss = F.cross_entropy(logits, labels) + 0.1 * distance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.detach()
