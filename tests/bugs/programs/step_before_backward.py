"""The critic takes its step before the generator's loss goes backward through it: its weights have changed."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "has been modified by an inplace operation"


def run():
    torch.manual_seed(0)
    generator = nn.Linear(4, 8)
    critic = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    adjust_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
    adjust_generator = torch.optim.SGD(generator.parameters(), lr=0.1)

    fake = generator(torch.randn(6, 4))
    verdict = critic(fake)
    critic_loss = F.softplus(verdict).mean()
    generator_loss = F.softplus(-verdict).mean()

    critic_loss.backward(retain_graph=True)
    adjust_critic.step()  # FAULT
    generator_loss.backward()
    adjust_generator.step()
