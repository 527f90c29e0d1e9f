"""Critic and generator are trained on the same fake images: the first backward frees the graph of both."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "Trying to backward through the graph a second time"


def run():
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh())
    critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    real = torch.randn(6, 8)
    fake = generator(torch.randn(6, 4))

    on_real, on_fake = critic(real), critic(fake)
    critic_loss = F.softplus(-on_real).mean() + F.softplus(on_fake).mean()
    critic_loss.backward()  # FAULT

    critic.zero_grad()
    generator_loss = F.softplus(-on_fake).mean()
    generator_loss.backward()
    return generator[0].weight.grad
