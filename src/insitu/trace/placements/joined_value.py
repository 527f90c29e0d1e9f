"""One value of a run of several ranks, as one process would have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from insitu.trace.placements.part import LocalPart
from insitu.trace.placements.part_layout import Placement, Shape

JoinMethod = Literal[
    "placements", "shapes", "copies", "unequal copies", "mean", "statistics", "one rank", "no values", "none"
]


@dataclass(frozen=True, slots=True, eq=False)
class JoinedValue:
    """The value that the parts of the ranks make up, and how they were joined.

    `method` is "placements" if the ranks recorded where their parts belong, "shapes" if this follows from the shape of
    the whole value, "copies" if all ranks hold the value itself, "unequal copies" if they should and do not, "mean" for
    losses and gradients that differ between ranks, "statistics" for numbers of the whole that follow from those of the
    parts, "one rank" if only one rank has the value, "no values" if none were recorded, and "none" if the parts do not
    make up the whole value. In the last two cases this is what the first rank recorded.

    `grid` and `placements` say how the parts were joined, where one rule holds for all of them. `are_copies_equal` is
    False if ranks hold different values where they should hold the same one, even if other ranks hold other parts.
    """

    value: Any
    parts: tuple[LocalPart, ...]
    method: JoinMethod
    grid: Shape = ()
    placements: tuple[Placement, ...] = ()
    are_copies_equal: bool = True
