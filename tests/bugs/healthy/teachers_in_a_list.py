"""Plain containers with a reason: frozen teachers, a second name for layers, layers with an optimizer of their own."""

import torch
import torch.nn.functional as F
from torch import nn


class Student(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.layers = [self.first, self.last]
        self.teachers = [nn.Linear(width, width), nn.Linear(width, width)]
        self.critics = {"one": nn.Linear(width, 1), "two": nn.Linear(width, 1)}
        self.scale = [nn.Linear(width, width)]

    def forward(self, x):
        with torch.no_grad():
            wanted = sum(teacher(x) for teacher in self.teachers)
        for layer in self.layers:
            x = layer(x).tanh()
        scores = sum(critic(x) for critic in self.critics.values())
        return F.mse_loss(self.scale[0](x), wanted) + scores.square().mean()


def build():
    torch.manual_seed(0)
    return Student(5)


def run(model):
    critics = [parameter for critic in model.critics.values() for parameter in critic.parameters()]
    optimizers = [torch.optim.SGD(each, lr=0.05) for each in (model.parameters(), critics)]
    for _ in range(6):
        loss = model(torch.randn(8, 5))
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return loss.detach()
