"""The values of the chosen actions are gathered with an index that lacks a dimension."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Index tensor must have the same number of dimensions as input tensor"
SAYS = "actions.unsqueeze(-1)"


class QNetwork(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.hidden = nn.Linear(states, 32)
        self.values = nn.Linear(32, actions)

    def forward(self, state):
        return self.values(self.hidden(state).relu())


def td_loss(network, states, actions, rewards):
    values = network(states)
    chosen = values.gather(1, actions)  # FAULT
    return (rewards - chosen.squeeze(1)).square().mean()


def run():
    torch.manual_seed(0)
    network = QNetwork(4, 2)
    states, actions, rewards = torch.randn(6, 4), torch.randint(2, (6,)), torch.rand(6)
    loss = td_loss(network, states, actions, rewards)
    loss.backward()
