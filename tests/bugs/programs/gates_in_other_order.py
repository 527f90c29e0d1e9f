"""The gates of an LSTM are stored one after the other, and the other library has the last two the other way round."""

import torch
from torch import nn

FOUND_BY = "compare"
REPAIR = "return gates.chunk(4, dim=-1)"


class Cell(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.inputs, self.hidden = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width, bias=False)

    def split(self, gates):
        return gates.chunk(4, dim=-1)

    def forward(self, x, state):
        hidden, cell = state
        enter, forget, fresh, leave = self.split(self.inputs(x) + self.hidden(hidden))
        cell = forget.sigmoid() * cell + enter.sigmoid() * fresh.tanh()
        return leave.sigmoid() * cell.tanh(), cell


class PortedCell(Cell):
    def split(self, gates):
        return [gates.chunk(4, dim=-1)[index] for index in (0, 1, 3, 2)]  # FAULT


def apply(kind):
    torch.manual_seed(0)
    cell, head = kind(3, 8), nn.Linear(8, 2)
    state = torch.zeros(4, 8), torch.zeros(4, 8)
    for x in torch.randn(5, 4, 3):
        state = cell(x, state)
    return head(state[0]).detach()


def good():
    return apply(Cell)


def bad():
    return apply(PortedCell)
