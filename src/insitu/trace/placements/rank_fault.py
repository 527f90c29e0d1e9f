"""What is wrong with the parts that ranks hold of a value, if the joined value differs from that of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from insitu.trace.kept_values import has_numbers, is_array
from insitu.trace.placements.guess import fitting_placements
from insitu.trace.placements.join import join, mean_of, sum_of
from insitu.trace.placements.joined_value import JoinedValue, Joiner
from insitu.trace.placements.layout import Placement, Shape

RankFaultKind = Literal[
    "sum", "mean", "times", "dimension", "gathered", "some ranks", "copies", "same values", "same zeros", "fit"
]
Array = Any


@dataclass(frozen=True, slots=True)
class RankFault:
    """What is wrong with the parts of a value.

    - "sum": their sum is the value of one process, so each rank has only a part of the sum. "mean": their mean is.
    - "times": the joined value is that of one process times `factor`, the number of ranks or one divided by it.
    - "dimension": joined by `placements`, and not by those that were recorded, they are the value of one process.
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


@dataclass(frozen=True, slots=True, eq=False)
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


def find_rank_fault(joined: JoinedValue, whole: Any, joiner: Joiner) -> RankFault | None:
    """The first thing that is wrong with the parts; None if nothing is known."""
    arrays = tuple([part.value for part in joined.parts])
    if len(arrays) < 2 or not all(map(_is_numeric, (whole, *arrays))):
        return None
    suspect = RankSuspect(joined, arrays, whole, joiner)
    return next(filter(None, (check(suspect) for check in _CHECKS)), None)


def _is_numeric(item: Any) -> bool:
    return is_array(item) and has_numbers(item)


def _summed(suspect: RankSuspect) -> RankFault | None:
    """Each rank has a part of a sum, which no collective has added."""
    if not _have_whole_shape(suspect) or (suspect.joined.are_copies_equal and suspect.joined.method != "mean"):
        return None
    if suspect.joiner.agree(suspect.whole, sum_of(suspect.arrays)):
        return RankFault("sum", suspect.count, recorded=suspect.joined.placements)
    return None


def _averaged(suspect: RankSuspect) -> RankFault | None:
    """The mean over the ranks is the value of one process, but the value is not one that is averaged."""
    if not _have_whole_shape(suspect) or suspect.joined.are_copies_equal:
        return None
    if suspect.joiner.agree(suspect.whole, mean_of(suspect.arrays)):
        return RankFault("mean", suspect.count, recorded=suspect.joined.placements)
    return None


def _scaled(suspect: RankSuspect) -> RankFault | None:
    """The value is too large or too small by the number of ranks: a sum that was not divided, or was divided twice."""
    value = suspect.joined.value
    if not _is_numeric(value) or value.shape != suspect.whole.shape or value.dtype.kind not in "fcV":
        return None
    if not np.any(suspect.whole):
        return None
    for size in dict.fromkeys([suspect.count, *suspect.joined.grid]):
        for factor in (float(size), 1.0 / size):
            wide = suspect.whole.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
            if size > 1 and suspect.joiner.agree((wide * factor).astype(value.dtype), value):
                return RankFault("times", suspect.count, factor=factor)
    return None


def _joined_elsewhere(suspect: RankSuspect) -> RankFault | None:
    """The parts make up the whole value by other placements than those that were recorded."""
    if suspect.joined.method != "placements":
        return None
    grid, recorded = suspect.joined.grid, suspect.joined.placements
    parts = {part.layout.coordinate: part.value for part in suspect.joined.parts if part.layout is not None}
    shapes = [parts[coordinate].shape for coordinate in sorted(parts)]
    for placements in fitting_placements(shapes, suspect.whole.shape, grid):
        if placements != recorded and suspect.joiner.agree(suspect.whole, join(parts, grid, placements)):
            return RankFault("dimension", suspect.count, placements=placements, recorded=recorded)
    return None


def _gathered(suspect: RankSuspect) -> RankFault | None:
    """The ranks gathered parts along the first dimension, as torch does, and the parts belong along another one."""
    value, whole, count = suspect.joined.value, suspect.whole, suspect.count
    if value.shape != whole.shape or suspect.joined.method not in ("copies", "placements"):
        return None
    for dim, size in enumerate(whole.shape):
        if dim == 0 or size % count:
            continue
        part = (*whole.shape[:dim], size // count, *whole.shape[dim + 1 :])
        if suspect.joiner.agree(whole, np.concatenate(list(value.reshape(count, *part)), axis=dim)):
            return RankFault("gathered", count, placements=(Placement("shard", dim=dim),))
    return None


def _alike(suspect: RankSuspect) -> RankFault | None:
    """All ranks hold the same values, or zeros at the same places, where one process has others for each of them."""
    slices = _slices(suspect)
    is_split = len(slices) == suspect.count and suspect.joined.are_copies_equal
    if not is_split or len(suspect.joined.grid) != 1:
        return None
    if _are_equal(suspect.arrays) and not _are_equal(slices):
        return RankFault("same values", suspect.count, ranks=suspect.ranks)
    zeros = [array == 0 for array in suspect.arrays]
    has_some_zeros = zeros[0].any() and not zeros[0].all()
    if has_some_zeros and _are_equal(zeros) and not _are_equal([part == 0 for part in slices]):
        return RankFault("same zeros", suspect.count, ranks=suspect.ranks)
    return None


def _some_ranks(suspect: RankSuspect) -> RankFault | None:
    """Only some ranks hold something else than their part of the whole value."""
    slices = _slices(suspect)
    if len(slices) != suspect.count:
        return None
    pairs = zip(suspect.ranks, suspect.arrays, slices, strict=True)
    wrong = tuple([rank for rank, array, part in pairs if not suspect.joiner.agree(part, array)])
    if not suspect.joined.are_copies_equal:
        return RankFault("copies", suspect.count, ranks=wrong, recorded=suspect.joined.placements)
    if not wrong or len(wrong) == suspect.count:
        return None
    return RankFault("some ranks", suspect.count, ranks=wrong)


def _misfit(suspect: RankSuspect) -> RankFault | None:
    """The parts do not make up the shape of the whole value."""
    if getattr(suspect.joined.value, "shape", None) == suspect.whole.shape:
        return None
    shapes = tuple([array.shape for array in suspect.arrays])
    recorded = suspect.joined.placements
    return RankFault("fit", suspect.count, recorded=recorded, shapes=shapes, whole=suspect.whole.shape)


_CHECKS: tuple[Callable[[RankSuspect], RankFault | None], ...] = (
    _summed,
    _averaged,
    _scaled,
    _joined_elsewhere,
    _gathered,
    _alike,
    _some_ranks,
    _misfit,
)


def _have_whole_shape(suspect: RankSuspect) -> bool:
    return all(array.shape == suspect.whole.shape for array in suspect.arrays)


def _are_equal(arrays: Iterable[Array]) -> bool:
    """Whether arrays hold the same values, and not just one value."""
    first, *rest = arrays
    if first.size < 2 or (first == first.flat[0]).all():
        return False
    return all(array.shape == first.shape and np.array_equal(array, first) for array in rest)


def _slices(suspect: RankSuspect) -> list[Array]:
    """The part of the whole value that each rank should hold; [] if this is not known."""
    joined = suspect.joined
    kinds = {placement.kind for placement in joined.placements}
    if len(joined.grid) != 1 or not kinds <= {"shard", "replicate"}:
        return []
    if joined.value.shape != suspect.whole.shape:
        return []
    return list(_split(suspect, joined.placements[0]))


def _split(suspect: RankSuspect, placement: Placement) -> Iterator[Array]:
    start = 0
    for array in suspect.arrays:
        if placement.kind == "replicate":
            yield suspect.whole
            continue
        end = start + array.shape[placement.dim]
        yield np.take(suspect.whole, range(start, end), axis=placement.dim)
        start = end
