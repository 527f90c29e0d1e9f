"""Which of many passes or steps a guard looks at."""

from __future__ import annotations

FIRST = 4  # that are all looked at; then it is those that are powers of two, and each EVERY-th
EVERY = 64


def is_due(count: int) -> bool:
    """Whether to look at the step, or pass, with this number.

    >>> [count for count in range(200) if is_due(count)]
    [0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 192]
    """
    is_power_of_two = not count & (count - 1)
    return count < FIRST or is_power_of_two or count % EVERY == 0
