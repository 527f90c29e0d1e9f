"""Whether the values of a recorded training are right: what can be computed is; each weight follows from the last."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.soak.batches import RATE, inputs

BLOCK = 4096  # steps that are held in memory at a time


def wrong(run: Any, first: int, end: int) -> list[str]:
    """What is wrong with the steps from the first to before the end."""
    problems: list[str] = []
    for start in range(first, end, BLOCK):
        problems += wrong_in(run, max(first, start - 1), min(start + BLOCK, end))
        if problems:
            break
    return problems


def wrong_in(run: Any, start: int, end: int) -> list[str]:
    """The same for so many steps that their values fit into memory."""
    batch, count, weight, gradient, mean = (
        run[path][start:end].values
        for path in ("forward.x", "count", "head.weight", "head.weight.grad", "forward.h.mean")
    )
    follows = weight[:-1] - np.float32(RATE) * gradient[1:]
    checks = {
        "the input of a step": np.array_equal(batch, np.stack([inputs(step) for step in range(start, end)])),
        "the number of calls": np.array_equal(count, np.arange(start + 1, end + 1)),
        "a weight, which is the last one less its gradient": np.allclose(weight[1:], follows, rtol=0, atol=1e-6),
        "a mean": bool(np.isfinite(np.asarray(mean, np.float64)).all()) and len(mean) == end - start,
    }
    return [f"steps {start} to {end}: {what} is wrong" for what, right in checks.items() if not right]
