"""When a journal begins another segment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from insitu.errors import ChoiceError
from insitu.trace.capacity import capacity


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """The bytes and the steps after which a segment is full.

    >>> SegmentLimits.parse("64MB", SENT), SegmentLimits.parse(100, SENT)
    (SegmentLimits(size=64000000, steps=1000), SegmentLimits(size=67108864, steps=100))
    """

    size: int
    steps: int

    @classmethod
    def parse(cls, segment: object, default: SegmentLimits) -> SegmentLimits:
        """The limits that an option asks for: a text is an amount of bytes, an integer a number of steps."""
        if segment is None:
            return default
        if isinstance(segment, str):
            return replace(default, size=capacity("segment", segment))
        if type(segment) is not int or segment < 1:
            raise ChoiceError(f"segment={segment!r:.80} is neither a size, as in '64MB', nor a number of steps")
        return replace(default, steps=segment)


KEPT = SegmentLimits(size=2**28, steps=2**16)  # of a journal that stays on this machine
SENT = SegmentLimits(size=2**26, steps=1000)  # of a journal that is sent: a lost machine takes less with it
