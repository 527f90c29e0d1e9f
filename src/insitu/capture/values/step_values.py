"""The values of one step: those that are not written yet, and what is known of those that are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from time import time
from typing import Any

from insitu.capture.deferral import PENDING
from insitu.capture.values.copies import LeftOutError
from insitu.errors import is_interrupt

# The path, the number of the value among those of the path in this step, and the value: a copy or a small value.
Taken = tuple[str, int, Any]
Put = Callable[[str, Any], None]

MOST_BYTES = 2**32  # of the values in a step that wait to be written

_numbers = count(1)


@dataclass(slots=True)
class Batch:
    """Values of one step that are written together. A batch whose writing was interrupted is written again."""

    number: int
    step: int
    time: float
    taken: list[Taken]
    is_more: bool  # the step has a batch before this one
    is_open: bool  # more of the step is expected
    is_again: bool  # some of the values replace values of a batch before
    rest: Iterator[Taken] = field(init=False)  # for those who take the values one by one

    def __post_init__(self) -> None:
        self.rest = iter(self.taken)

    def settle(self, trouble: Callable[[str, Exception], None]) -> None:
        """Wait for the values that are on their way from a device; nobody has taken one yet.

        A value that does not arrive is left out.
        """
        arrived = []
        for each in self.taken:
            try:
                arrived.append(settled(each))
            except Exception as error:
                if is_interrupt(error):
                    raise
                trouble("reading a value of a device", error)
        self.taken = arrived
        self.rest = iter(arrived)


@dataclass(slots=True)
class StepValues:
    """One step. Its parts change by single operations only, so that an exception finds it whole at any moment."""

    number: int
    time: float | None = None  # when its first batch was written
    is_open: bool = False  # what the last batch said
    size: int = 0  # the bytes of what waits
    taken: list[Taken] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    # The values that a step has once, by path and call: taken again, they replace the ones before.
    settled: dict[tuple[str, int], Any] = field(default_factory=dict)
    written: frozenset[tuple[str, int]] = frozenset()  # the keys of those that are written
    contents: dict[str, Any] = field(default_factory=dict)  # the parameters that were taken, with a print of each
    uses: dict[str, int] = field(default_factory=dict)  # how often an optimizer has used a gradient

    @property
    def has_news(self) -> bool:
        """Whether there is something to write."""
        return bool(self.taken or self.settled or self.time is None)

    def append(self, path: str, value: Any) -> None:
        """Take the next value of a path."""
        call = self.counts.get(path, 0)
        self.taken.append((path, call, value))
        self.counts[path] = call + 1

    def set(self, call: int, path: str, value: Any) -> None:
        """Take the one value of a path."""
        self.settled[path, call] = value

    def reserve(self, size: int) -> None:
        """Count the bytes of a value; LeftOutError if a step may not hold them."""
        if self.size + size > MOST_BYTES:
            limit = f"at most {MOST_BYTES:,} bytes wait to be written, and this value has {size:,}"
            raise LeftOutError(f"{limit}: keep='stats', or a function of the tensor, takes less")
        self.size += size

    def take_back(self, length: int) -> None:
        """Forget the values that were appended after the first so many."""
        for path, call, _ in reversed(self.taken[length:]):
            self.counts[path] = call
        del self.taken[length:]

    def split(self, *, is_open: bool) -> tuple[Batch, StepValues]:
        """What is to be written now, and the step as it is once that is done."""
        moment = time() if self.time is None else self.time
        taken = self.taken
        if self.settled:
            taken = [*taken, *((path, call, value) for (path, call), value in self.settled.items())]
        batch = Batch(
            next(_numbers),
            self.number,
            moment,
            taken,
            is_more=self.time is not None,
            is_open=is_open,
            is_again=not self.written.isdisjoint(self.settled),
        )
        written = self.written.union(self.settled) if self.settled else self.written
        rest = StepValues(self.number, moment, is_open, written=written)
        rest.counts, rest.contents, rest.uses = self.counts, self.contents, self.uses
        return batch, rest


def settled(taken: Taken) -> Taken:
    """A value that has come over from its device."""
    path, call, value = taken
    if isinstance(value, PENDING):
        return path, call, value.settle()
    return taken
