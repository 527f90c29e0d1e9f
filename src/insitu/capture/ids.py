"""Ids of records: they count on from thread to thread, and when a part of a tape is taken off."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from insitu.capture.tape import OUTERMOST

THREAD_STRIDE = 1 << 40
# A value whose producer is no longer at its offset holds the id of the producer instead: EARLIER - id, below GIVEN.
FORGOTTEN = OUTERMOST - 1  # the producer of a value whose call is gone, and of which not even the id is known
EARLIER = FORGOTTEN - 1


class Seam(NamedTuple):
    """Where a part of a tape was taken off: when its last record began, and which watched calls ran then."""

    time: float = 0.0
    running: tuple[int, ...] = ()


class Ids:
    """The ids of the records on a tape, by their offsets: they count on when the end of the tape is cleared.

    >>> ids = Ids(100)
    >>> ids.clear(10, 50)
    >>> ids(5), ids(10)
    (105, 150)
    """

    def __init__(self, first: int) -> None:
        self._parts = [(0, first)]  # from which offset on how much is added
        self.seams: dict[int, Seam] = {}  # by the offset from which on the tape was cleared

    def __call__(self, at: int) -> int:
        return at + next(added for begin, added in reversed(self._parts) if at >= begin)

    def copy(self) -> Ids:
        """The ids as they are now, whatever is cleared later."""
        same = Ids(0)
        same._parts, same.seams = list(self._parts), dict(self.seams)
        return same

    def clear(self, begin: int, end: int, seam: Seam | None = None) -> None:
        """The records between two offsets are gone, and the second was the end."""
        added = self.cleared + end - begin
        self._parts = [*(part for part in self._parts if part[0] < begin), (begin, added)]
        self.seams = {at: calls for at, calls in self.seams.items() if at < begin}
        self.seams[begin] = seam or Seam()

    @property
    def begin(self) -> int:
        """From where on it was cleared last."""
        return self._parts[-1][0]

    @property
    def cleared(self) -> int:
        """What is added at the end of the tape."""
        return self._parts[-1][1]

    @property
    def is_whole(self) -> bool:
        """Whether nothing was ever cleared."""
        return not self.seams

    @property
    def is_even(self) -> bool:
        """Whether the same is added everywhere: the tape was cleared as a whole, or never."""
        return len(self._parts) == 1


def adding(added: int) -> Callable[[int], int]:
    """The ids of a tape where the same is added everywhere; they are asked for several times for each event."""
    return added.__add__


def numbering(numbers: dict[int, int], identity: Callable[[int], int]) -> Callable[[int], int]:
    """The numbers of records by their offsets; -1 for a record that has none."""
    get = numbers.get
    return lambda at: get(identity(at), -1)
