"""Segments of a tape that are decoded together, and ids that count on when a part of a tape is taken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from insitu.capture.tape import Record, Seam, Tape

THREAD_STRIDE = 1 << 40  # the ids of a thread begin at its number times this


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


class Segment:
    """The records of a tape from an offset on. Those before it are calls that ran meanwhile: other records name them.

    Offsets are those of the tape when the segment was taken off it, and `ids` the ids at that time.
    """

    __slots__ = ("begin", "end", "ids", "tape")

    def __init__(self, tape: Tape, begin: int, end: int | None, ids: Ids) -> None:
        self.tape, self.begin, self.end, self.ids = tape, begin, end, ids

    def records(self) -> Iterator[Record]:
        """The records of the segment, in order."""
        every = self.tape.records(self.end, seams=self.ids.seams)
        if self.begin:
            return (record for record in every if record[1] >= self.begin)
        return every

    def earlier_records(self) -> Iterator[Record]:
        """The records before the segment."""
        return self.tape.records(self.begin, seams=self.ids.seams)
