"""The numbers that a training is made of; whoever reads its record knows them too, without torch."""

from __future__ import annotations

import numpy as np

ROWS, WIDTH, RATE = 24, 32, 0.05
PLACES = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) / (ROWS * WIDTH)


def inputs(step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """The batch of a step. With `ROWS`, 100,000 of them fill more than one file of a journal."""
    return np.sin(PLACES * np.float32(1 + step % 97))
