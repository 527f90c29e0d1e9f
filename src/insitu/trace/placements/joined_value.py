"""One value of a run of several ranks, as one process would have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

from insitu.errors import RanksError
from insitu.trace.compare.closeness import Tolerance, close_arrays, close_plain
from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.kept_values import is_array
from insitu.trace.placements.guess import fitting_placements, grids
from insitu.trace.placements.join import join, mean_of, parts_by_coordinate, replica_count
from insitu.trace.placements.part import LocalPart
from insitu.trace.placements.part_layout import Placement, Shape
from insitu.trace.placements.statistics_of_parts import combined_stats

Array = Any
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


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor that one rank holds, or that several ranks hold together by their placements."""

    array: Array
    grid: Shape = ()
    placements: tuple[Placement, ...] = ()
    are_copies_equal: bool = True


@dataclass(frozen=True, slots=True)
class Joiner:
    """Joins the parts of one value at a time; `meshes` are the meshes that the run is known to have."""

    tolerance: Tolerance
    meshes: tuple[Shape, ...] = ()

    def joined(self, path: str, parts: Sequence[LocalPart], whole: Any) -> JoinedValue:
        """The value that parts make up. `whole` is that of the other run, None if it has none.

        Raises RanksError if the recorded placements cannot be joined.
        """
        every = tuple(parts)
        if not all(is_array(part.value) for part in every):
            return _joined_plain(every, whole)
        laid_out = [part for part in every if part.layout is not None]
        if not laid_out:
            return self._by_shapes(path, every, [Piece(part.value) for part in every], whole)
        _check_all_laid_out(path, every, laid_out)
        pieces = [self._piece(path, group, whole) for group in _by_mesh(laid_out)]
        if len(pieces) > 1:
            return self._by_shapes(path, every, pieces, whole)
        piece = pieces[0]
        return JoinedValue(
            piece.array, every, "placements", piece.grid, piece.placements, are_copies_equal=piece.are_copies_equal
        )

    def _piece(self, path: str, parts: Sequence[LocalPart], whole: Any) -> Piece:
        """The tensor that the ranks of one mesh hold."""
        by_coordinate = parts_by_coordinate(path, parts)
        layout = parts[0].layout
        assert layout is not None
        arrays = {coordinate: part.value for coordinate, part in by_coordinate.items()}
        try:
            return self.assembled(arrays, layout.mesh.shape, layout.placements, whole)
        except ValueError as error:
            shapes = ", ".join([f"{list(part.value.shape)} on rank {part.rank}" for part in parts])
            placements = ", ".join(map(str, layout.placements))
            raise RanksError(
                f"the parts of {path!r} do not belong together: {shapes} cannot be joined by {placements}: {error}"
            ) from None

    def assembled(
        self, arrays: Mapping[Shape, Array], grid: Shape, placements: tuple[Placement, ...], whole: Any
    ) -> Piece:
        """Parts joined by placements; of copies that differ, the one that is farthest from the whole value."""
        copies = [join(arrays, grid, placements, number) for number in range(replica_count(grid, placements))]
        if all(self.agree(copies[0], copy) for copy in copies[1:]):
            return Piece(copies[0], grid, placements)
        farthest = max(copies, key=lambda copy: _distance(copy, whole))
        return Piece(farthest, grid, placements, are_copies_equal=False)

    def _by_shapes(self, path: str, parts: tuple[LocalPart, ...], pieces: list[Piece], whole: Any) -> JoinedValue:
        """The value of pieces of which no placement is known, by the shape of the whole value."""
        if len(pieces) == 1:
            return JoinedValue(pieces[0].array, parts, "one rank")
        arrays = [piece.array for piece in pieces]
        if not is_array(whole):
            are_equal = all(self.agree(arrays[0], array) for array in arrays[1:])
            return JoinedValue(arrays[0], parts, "copies" if are_equal else "none")
        found = self._best(list(self._guesses(arrays, whole)), whole)
        if found is None:
            return JoinedValue(arrays[0], parts, "none")
        if not found.are_copies_equal and is_averaged(path, whole.shape):
            return JoinedValue(mean_of(arrays), parts, "mean")
        has_copies_only = all(placement.kind == "replicate" for placement in found.placements)
        method: JoinMethod = _copies(found.are_copies_equal) if has_copies_only else "shapes"
        return JoinedValue(
            found.array, parts, method, found.grid, found.placements, are_copies_equal=found.are_copies_equal
        )

    def _guesses(self, arrays: list[Array], whole: Array) -> Iterator[Piece]:
        shapes = [array.shape for array in arrays]
        for grid in grids(len(arrays), self.meshes):
            places = _coordinates(grid)
            if len(places) != len(arrays):
                continue
            for placements in fitting_placements(shapes, whole.shape, grid):
                yield self.assembled(dict(zip(places, arrays, strict=True)), grid, placements, whole)

    def _best(self, guesses: list[Piece], whole: Array) -> Piece | None:
        """The guess that makes up the whole value, else one whose copies are equal, else the first."""
        consistent = [guess for guess in guesses if guess.are_copies_equal]
        agreeing = [guess for guess in consistent if self.agree(whole, guess.array)]
        for found in (agreeing, consistent, guesses):
            if found:
                return found[0]
        return None

    def agree(self, one: Array, other: Array) -> bool:
        """Whether two arrays hold the same values, within the tolerance."""
        rtol, atol = self.tolerance.of(_short(one), _short(other))
        return bool(close_arrays(one, other, rtol, atol).same)


def _copies(are_equal: bool) -> JoinMethod:
    return "copies" if are_equal else "unequal copies"


def is_averaged(path: str, shape: Shape) -> bool:
    """Whether the ranks may hold different values whose mean is that of the whole batch: losses and gradients."""
    return not shape or path.endswith(".grad")


def _short(array: Array) -> str:
    return dtype_named(str(array.dtype)).short


def _distance(array: Array, whole: Any) -> float:
    if not is_array(whole) or array.shape != whole.shape:
        return 0.0
    return close_arrays(whole, array, 0.0, 0.0).delta or 0.0


def _coordinates(grid: Shape) -> list[Shape]:
    return list(product(*map(range, grid)))


def _check_all_laid_out(path: str, parts: Sequence[LocalPart], laid_out: Sequence[LocalPart]) -> None:
    """Refuse to join parts if only some of the ranks recorded a placement."""
    if len(laid_out) == len(parts):
        return
    ranks = ", ".join([str(part.rank) for part in parts if part.layout is None])
    raise RanksError(
        f"the parts of {path!r} do not belong together: rank {laid_out[0].rank} recorded placements,"
        f" and rank {ranks} did not"
    )


def _by_mesh(parts: Sequence[LocalPart]) -> list[list[LocalPart]]:
    """The parts on each mesh, in the order of their ranks."""
    found: dict[tuple[int, ...], list[LocalPart]] = {}
    for part in parts:
        assert part.layout is not None
        found.setdefault(part.layout.mesh.ranks, []).append(part)
    return list(found.values())


def _joined_plain(parts: tuple[LocalPart, ...], whole: Any) -> JoinedValue:
    """Python values, and tensors of which no values were recorded: the same on all ranks, or a mean of numbers."""
    values = [part.value for part in parts]
    if len(values) == 1:
        return JoinedValue(values[0], parts, "one rank")
    if any(isinstance(value, TensorFacts) for value in values):
        return joined_facts(parts, whole)
    if all(_is_same(values[0], value) for value in values[1:]):
        return JoinedValue(values[0], parts, "copies")
    if all(type(value) is float for value in values):
        return JoinedValue(sum(values) / len(values), parts, "mean")
    other = next(filter(_differs_from(whole), values), values[0])
    return JoinedValue(other, parts, "unequal copies", are_copies_equal=False)


def joined_facts(parts: tuple[LocalPart, ...], whole: Any) -> JoinedValue:
    """Tensors of which statistics at most were recorded: statistics of the whole, if the parts make it up."""
    facts = [part.value for part in parts]
    stats = [each.stats for each in facts if isinstance(each, TensorFacts) and each.stats is not None]
    is_known = len(stats) == len(facts) and isinstance(whole, TensorFacts) and whole.stats is not None
    if not is_known:
        return JoinedValue(facts[0], parts, "no values")
    combined = combined_stats(stats, whole.stats.count)
    if combined is None:
        return JoinedValue(facts[0], parts, "none")
    return JoinedValue(replace(facts[0], shape=whole.shape, strides=None, stats=combined), parts, "statistics")


def _differs_from(whole: Any) -> Callable[[Any], bool]:
    return lambda value: not _is_same(whole, value)


def _is_same(one: Any, other: Any) -> bool:
    found = close_plain(one, other, 0.0, 0.0)
    return found is not None and found.same is True
