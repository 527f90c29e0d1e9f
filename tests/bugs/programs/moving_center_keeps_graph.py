"""The moving centre of a teacher is updated from outputs that have a graph: the next step walks into the last one."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "Trying to backward through the graph a second time"
REPAIR = "self.center = 0.9 * self.center + 0.1 * outputs.detach().mean(0)"


class CenteredLoss(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("center", torch.zeros(width))

    def forward(self, student, teacher):
        wanted = ((teacher - self.center) / 0.1).softmax(-1)
        loss = -(wanted * F.log_softmax(student, dim=-1)).sum(-1).mean()
        self.follow(teacher)
        return loss

    def follow(self, outputs):
        self.center = 0.9 * self.center + 0.1 * outputs.mean(0)  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 5))
    criterion = CenteredLoss(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images = torch.randn(12, 6)
    for batch in images.split(4):
        left, right = batch + 0.1 * torch.randn_like(batch), batch - 0.1 * torch.randn_like(batch)
        loss = criterion(model(left), model(right))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss
