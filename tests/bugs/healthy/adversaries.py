"""A generator and a discriminator that take turns: what is detached in one turn learns in the other."""

import torch
import torch.nn.functional as F
from torch import nn


def build():
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 4))
    return nn.ModuleDict({"generator": generator, "critic": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))})


def run(model):
    generator, critic = model["generator"], model["critic"]
    learn = torch.optim.Adam(generator.parameters(), 0.01)
    judge = torch.optim.Adam(critic.parameters(), 0.01)
    ones, zeros = torch.ones(6, 1), torch.zeros(6, 1)
    for _ in range(3):
        fake = generator(torch.randn(6, 3))
        judge.zero_grad()
        real_loss = F.binary_cross_entropy_with_logits(critic(torch.randn(6, 4) + 2), ones)
        (real_loss + F.binary_cross_entropy_with_logits(critic(fake.detach()), zeros)).backward()
        judge.step()
        learn.zero_grad()
        loss = F.binary_cross_entropy_with_logits(critic(fake), ones)
        loss.backward()
        learn.step()
    return loss
