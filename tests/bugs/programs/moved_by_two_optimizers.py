"""The optimizer of the critic was given all parameters: it moves the actor as well, against its own optimizer."""

import torch
from torch import nn

FOUND_BY = "guard"
SHOWS = "worse"
REPAIR = "judge = torch.optim.Adam(model.critic.parameters(), lr=0.5)"


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))


def build():
    torch.manual_seed(0)
    return ActorCritic()


def reward(states, actions):
    return -(actions - states.sum(-1, keepdim=True)).square()


def run(model):
    play = torch.optim.Adam(model.actor.parameters(), lr=0.01)
    judge = torch.optim.Adam(model.parameters(), lr=0.5)  # FAULT
    states = torch.randn(64, 3)
    for _ in range(40):
        actions = model.actor(states)
        judge.zero_grad()
        wrong = (model.critic(torch.cat([states, actions], -1)) - reward(states, actions)).square().mean()
        wrong.backward()
        judge.step()
        play.zero_grad()
        loss = -reward(states, model.actor(states)).mean()
        loss.backward()
        play.step()
    return -reward(states, model.actor(states)).mean().detach()
