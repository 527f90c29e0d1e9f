"""The estimates of a critic are put into the replay buffer with their graph: the second update meets it again."""

import random
from collections import deque

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Trying to backward through the graph a second time"
REPAIR = "buffer.append((observation, reward, estimate.detach()))"


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, observation):
        return self.layers(observation).squeeze(-1)


def play(critic, buffer):
    for _ in range(8):
        observation, reward = torch.randn(4), torch.rand(())
        estimate = critic(observation)
        buffer.append((observation, reward, estimate))  # FAULT


def update(critic, optimizer, buffer):
    observations, rewards, old = map(torch.stack, zip(*random.sample(buffer, 8), strict=True))
    values = critic(observations)
    near = old + (values - old).clamp(-0.2, 0.2)
    loss = torch.maximum((values - rewards).square(), (near - rewards).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def run():
    torch.manual_seed(0)
    random.seed(0)
    critic, buffer = Critic(), deque(maxlen=100)
    optimizer = torch.optim.Adam(critic.parameters())
    for _ in range(3):
        play(critic, buffer)
        update(critic, optimizer, buffer)
