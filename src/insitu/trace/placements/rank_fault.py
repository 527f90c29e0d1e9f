"""What is wrong with the parts that ranks hold of a value, if the joined value differs from that of one process.

Each check looks for one thing that goes wrong in parallel programs. The first that finds something decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np

from insitu.trace.kept_values import has_numbers, is_array
from insitu.trace.placements.guess import fitting_placements
from insitu.trace.placements.join import mean_of, sum_of
from insitu.trace.placements.joined_value import JoinedValue
from insitu.trace.placements.joiner import Joiner
from insitu.trace.placements.part_layout import Placement, Shape

RankFaultKind = Literal[
    "sum", "mean", "times", "placement", "gathered", "some ranks", "copies", "same values", "same zeros", "fit"
]
Array = Any


@dataclass(frozen=True, slots=True)
class RankFault:
    """What is wrong with the parts of a value.

    - "sum": their sum is the value of one process, so each rank has only a part of the sum. "mean": their mean is.
    - "times": the joined value is that of one process times `factor`, the number of ranks or one divided by it.
    - "placement": joined by `placements`, and not by those that were recorded, they are the value of one process.
    - "gathered": all ranks hold the parts of the ranks behind each other; they belong together by `placements`.
    - "some ranks": only the parts of `ranks` differ from those of one process.
    - "copies": the ranks hold different values where they should hold the same one; those of `ranks` differ from that
      of one process.
    - "same values": all ranks hold the same values, and one process has others for each of them.
    - "same zeros": zeros are at the same places on all ranks, and not in one process: they drew the same numbers.
    - "fit": the parts do not make up the shape `whole`.

    `shapes` are those of the parts, and `count` is the number of ranks. `recorded` is what the ranks recorded.
    """

    kind: RankFaultKind
    count: int
    ranks: tuple[int, ...] = ()
    factor: float = 1.0
    placements: tuple[Placement, ...] = ()
    recorded: tuple[Placement, ...] = ()
    shapes: tuple[Shape, ...] = ()
    whole: Shape = ()


@dataclass(frozen=True, eq=False)
class RankSuspect:
    """A value that differs: how its parts were joined, the arrays of the parts, and the value of one process."""

    joined: JoinedValue
    arrays: tuple[Array, ...]
    whole: Array
    joiner: Joiner

    @property
    def count(self) -> int:
        """How many ranks hold a part."""
        return len(self.arrays)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that hold a part."""
        return tuple([part.rank for part in self.joined.parts])

    @property
    def is_whole(self) -> bool:
        """Whether the joined value has the shape of that of one process."""
        return bool(self.joined.value.shape == self.whole.shape)

    @property
    def have_own_values(self) -> bool:
        """Whether the ranks hold values of the whole shape, and not the same ones."""
        shapes = {array.shape for array in self.arrays}
        return self.joined.method in ("mean", "unequal copies") and shapes == {self.whole.shape}

    @cached_property
    def slices(self) -> list[Array]:
        """What each rank should hold of the value of one process; [] if this is not known."""
        placements = self.joined.placements
        if len(placements) != 1 or not self.is_whole:
            return []
        placement = placements[0]
        if placement.kind == "replicate":
            return [self.whole] * self.count
        if placement.kind == "partial":
            return []
        ends = np.cumsum([array.shape[placement.dim] for array in self.arrays])
        return np.split(self.whole, ends[:-1], axis=placement.dim)

    def agrees(self, array: Array) -> bool:
        """Whether an array is the value of one process."""
        return self.joiner.agree(self.whole, array)


def find_rank_fault(joined: JoinedValue, whole: Any, joiner: Joiner) -> RankFault | None:
    """The first thing that is wrong with the parts; None if nothing is known."""
    arrays = tuple([part.value for part in joined.parts])
    if len(arrays) < 2 or not all(map(_is_numeric, (whole, *arrays))):
        return None
    suspect = RankSuspect(joined, arrays, whole, joiner)
    findings = (check(suspect) for check in _CHECKS)
    return next(filter(None, findings), None)


def _is_numeric(item: Any) -> bool:
    return is_array(item) and has_numbers(item)


def _summed(suspect: RankSuspect) -> RankFault | None:
    """Each rank has a part of a sum, which no collective has added."""
    if suspect.have_own_values and suspect.agrees(sum_of(suspect.arrays)):
        return RankFault("sum", suspect.count)
    return None


def _averaged(suspect: RankSuspect) -> RankFault | None:
    """The mean over the ranks is the value of one process, but the value is not one that is averaged."""
    if suspect.have_own_values and suspect.agrees(mean_of(suspect.arrays)):
        return RankFault("mean", suspect.count)
    return None


def _scaled(suspect: RankSuspect) -> RankFault | None:
    """The value is too large or too small by the number of ranks: a sum that was not divided, or was divided twice."""
    value = suspect.joined.value
    if not suspect.is_whole or not np.any(value):
        return None
    sizes = {float(suspect.count), *map(float, suspect.joined.grid)} - {1.0}
    for size, sign in product(sorted(sizes), (1, -1)):
        factor = size**sign
        if suspect.agrees((value / factor).astype(value.dtype)):
            return RankFault("times", suspect.count, factor=factor)
    return None


def _placed_elsewhere(suspect: RankSuspect) -> RankFault | None:
    """The parts make up the value of one process by other placements than those that were recorded."""
    joined = suspect.joined
    if joined.method != "placements":
        return None
    parts = {part.layout.coordinate: part.value for part in joined.parts if part.layout is not None}
    shapes = [parts[coordinate].shape for coordinate in sorted(parts)]
    for placements in fitting_placements(shapes, suspect.whole.shape, joined.grid):
        found = suspect.joiner.assembled(parts, joined.grid, placements, suspect.whole)
        if found.are_copies_equal and suspect.agrees(found.array):
            return RankFault("placement", suspect.count, placements=placements, recorded=joined.placements)
    return None


def _gathered(suspect: RankSuspect) -> RankFault | None:
    """The ranks gathered parts along the first dimension, as torch does, and the parts belong along another one."""
    if not suspect.is_whole or suspect.joined.method not in ("copies", "placements"):
        return None
    for dim in range(1, suspect.whole.ndim):
        found = _regathered(suspect.joined.value, suspect.count, dim)
        if found is not None and suspect.agrees(found):
            return RankFault("gathered", suspect.count, placements=(Placement("shard", dim=dim),))
    return None


def _regathered(value: Array, count: int, dim: int) -> Array | None:
    """The parts that are behind each other in memory, joined along a dimension; None if it cannot be split so."""
    sizes = list(value.shape)
    sizes[dim], rest = divmod(sizes[dim], count)
    if rest:
        return None
    return np.concatenate(list(value.reshape(count, *sizes)), axis=dim)


def _same_values(suspect: RankSuspect) -> RankFault | None:
    """All ranks hold the same values, where one process has others for each of them."""
    return _alike(suspect, "same values", suspect.arrays, suspect.slices)


def _same_zeros(suspect: RankSuspect) -> RankFault | None:
    """Zeros are at the same places on all ranks, as dropout makes them, and not in one process."""
    return _alike(suspect, "same zeros", list(map(_zeros, suspect.arrays)), list(map(_zeros, suspect.slices)))


def _zeros(array: Array) -> Array:
    return array == 0


def _alike(
    suspect: RankSuspect, kind: RankFaultKind, parts: Sequence[Array], slices: Sequence[Array]
) -> RankFault | None:
    """A fault if the parts of all ranks are the same, and those of one process are not."""
    if not slices or not _is_varied(parts[0]):
        return None
    if _are_equal(parts) and not _are_equal(slices):
        return RankFault(kind, suspect.count, ranks=suspect.ranks)
    return None


def _is_varied(array: Array) -> bool:
    """Whether an array holds more than one value."""
    return bool(array.size > 1 and (array != array.flat[0]).any())


def _are_equal(arrays: Sequence[Array]) -> bool:
    return all(np.array_equal(arrays[0], array) for array in arrays[1:])


def _some_ranks(suspect: RankSuspect) -> RankFault | None:
    """Only some ranks hold something else than their part of the value of one process."""
    if not suspect.slices:
        return None
    agree = map(suspect.joiner.agree, suspect.slices, suspect.arrays)
    wrong = tuple([rank for rank, is_right in zip(suspect.ranks, agree, strict=True) if not is_right])
    if not suspect.joined.are_copies_equal:
        return RankFault("copies", suspect.count, ranks=wrong)
    if len(wrong) in (0, suspect.count):
        return None
    return RankFault("some ranks", suspect.count, ranks=wrong)


def _misfit(suspect: RankSuspect) -> RankFault | None:
    """The parts do not make up the shape of the value of one process."""
    if suspect.is_whole:
        return None
    shapes = tuple([array.shape for array in suspect.arrays])
    recorded = suspect.joined.placements
    return RankFault("fit", suspect.count, recorded=recorded, shapes=shapes, whole=suspect.whole.shape)


_CHECKS: tuple[Callable[[RankSuspect], RankFault | None], ...] = (
    _summed,
    _averaged,
    _scaled,
    _placed_elsewhere,
    _gathered,
    _same_values,
    _same_zeros,
    _some_ranks,
    _misfit,
)
