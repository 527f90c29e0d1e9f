"""A series made by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Rows:
    """A series made by hand: a row is (step, rank, value)."""

    rows: list[tuple[int, int, Any]]
    name: str = "forward.x"
    dtype: str = "float32"
    shape: tuple[int, ...] | None = None
    times: Any = field(init=False)

    def __post_init__(self) -> None:
        steps, ranks, self.values = zip(*self.rows, strict=True)
        self.steps, self.ranks, self.times = np.array(steps), np.array(ranks), np.arange(len(steps))

    def __iter__(self) -> Any:
        return iter(self.values)
