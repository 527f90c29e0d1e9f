"""Advantages are normalised over an episode that has only one step: the deviation of one number is NaN."""

import torch
from torch import nn

FOUND_BY = "guard"


def advantages(rewards, values):
    raw = rewards - values
    spread = raw.std()  # FAULT
    return (raw - raw.mean()) / (spread + 1e-8)


def run():
    torch.manual_seed(0)
    policy, critic = nn.Linear(4, 2), nn.Linear(4, 1)
    for steps in (6, 3, 1):
        states = torch.randn(steps, 4)
        rewards = torch.rand(steps)
        with torch.no_grad():
            gain = advantages(rewards, critic(states).squeeze(1))
        chance = policy(states).log_softmax(-1)[:, 0]
        loss = -(chance * gain).mean()
    return loss
