"""The training that is soaked: a tiny model whose recorded values can be told to be right by whoever reads them.

The input of a step follows from its number, a buffer counts the steps, and plain SGD makes of a weight and its gradient
the weight of the next step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.soak.batches import RATE, WIDTH, inputs
from torch import Tensor, nn

PATHS = ("forward.x", "forward.h", "count", "head.weight", "head.weight.grad")
KEEP = {"forward.h": "stats", "**": "values"}

Step = Callable[["Net", torch.optim.Optimizer, int], Tensor]


class Net(nn.Module):
    """Two layers, and a buffer that counts the calls."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        h = torch.relu(self.body(x))
        out: Tensor = self.head(h)
        return out


def train_step(model: Net, optimizer: torch.optim.Optimizer, step: int) -> Tensor:
    """One step of a training, which knows nothing of insitu."""
    batch = torch.from_numpy(inputs(step))
    optimizer.zero_grad()
    loss = (model(batch) - batch.mean(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def make() -> tuple[Net, torch.optim.Optimizer]:
    """The model, always the same, and what trains it."""
    torch.manual_seed(0)
    model = Net()
    return model, torch.optim.SGD(model.parameters(), lr=RATE)
