"""The progress of work on many events, which a view can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
STRIDE = 1 << 10  # items between two counts


class Progress:
    """What is done with the items, how many there are, and how many are done; `total` is 0 if nothing is counted."""

    def __init__(self) -> None:
        self.what = ""
        self.done = self.total = 0


progress = Progress()


def count_progress(items: Iterable[T], total: int, what: str, *, stride: int = STRIDE) -> Iterator[T]:
    """The items, counted in `progress` while they are taken: each `stride` of them.

    >>> [progress.total for _ in count_progress("ab", 2, "reading")], progress.total
    ([2, 2], 0)
    """
    progress.what, progress.done, progress.total = what, 0, total
    try:
        for number, item in enumerate(items):
            if not number % stride:
                progress.done = number
            yield item
    finally:
        progress.done = progress.total = 0
