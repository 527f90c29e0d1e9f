"""A small model, and what the tests of all frameworks ask."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.optim import optimizer

from insitu.capture.modules import patch
from insitu.capture.variables.reporters import recordings


class Boom(Exception):
    """What goes wrong in a test."""


class Model(nn.Module):
    """Three numbers become one."""

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.fails_at = fails_at
        self.fc = nn.Linear(3, 1)
        self.calls = 0

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        if self.calls == self.fails_at:
            raise Boom
        self.calls += 1
        h = self.fc(x / 8).squeeze(-1)
        loss = ((h - labels / 8) ** 2).mean()
        return {"loss": loss, "h": h}


def is_clean() -> bool:
    """Whether no recording listens any more."""
    hooks: Any = optimizer._global_optimizer_pre_hooks
    return not (hooks or patch.value_probes or recordings) and nn.Module._call_impl.__module__ == nn.Module.__module__


class Net(nn.Module):
    """Two layers, and a training step that is not `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x).relu()
        return self.head(h)  # type: ignore[no-any-return]

    def training_step(self, x: Tensor) -> Tensor:
        loss = self(x).float().square().mean()
        return loss
