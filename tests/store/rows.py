"""A series made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Rows:
    """A series made by hand: a row is (step, rank, value). Python values have the dtype "json", as in a run."""

    rows: list[tuple[int, int, Any]]
    name: str = "forward.x"
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    times: Any = field(init=False)

    def __post_init__(self) -> None:
        steps, ranks, self.values = zip(*self.rows, strict=True)
        self.steps, self.ranks, self.times = np.array(steps), np.array(ranks), np.arange(len(steps))
        if not self.dtype:
            self.dtype = "float32" if isinstance(self.values[0], (np.ndarray, np.generic)) else "json"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.rows)

    def _arrays(self, most: int) -> Iterator[Any]:
        yield np.stack(self.values)
