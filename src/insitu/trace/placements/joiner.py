"""Joins the parts that ranks hold of one value: by their placements or, if none were recorded, by their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

from insitu.errors import RanksError
from insitu.trace.compare.closeness import Tolerance, close_arrays
from insitu.trace.dtype import dtype_named
from insitu.trace.kept_values import is_array
from insitu.trace.placements.guess import fitting_placements, grids
from insitu.trace.placements.join import join, mean_of, parts_by_coordinate, replica_count
from insitu.trace.placements.joined_value import JoinedValue, JoinMethod
from insitu.trace.placements.part import LocalPart
from insitu.trace.placements.part_layout import REPLICATE, PartLayout, Placement, Shape
from insitu.trace.placements.plain_join import joined_plain

Array = Any
Placements = tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor that one rank holds, or that several ranks hold together by their placements."""

    array: Array
    grid: Shape = ()
    placements: Placements = ()
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
            return joined_plain(every, whole)
        pieces = [self._piece(path, group, whole) for group in _by_mesh(path, every)]
        if len(pieces) > 1:
            return self._by_shapes(path, every, pieces, whole)
        method: JoinMethod = "placements" if pieces[0].placements else "one rank"
        return _joined_value(pieces[0], every, method)

    def _piece(self, path: str, parts: Sequence[LocalPart], whole: Any) -> Piece:
        """The tensor that the ranks of one mesh hold; without a layout, that of one rank."""
        layout = parts[0].layout
        if layout is None:
            return Piece(parts[0].value)
        by_coordinate = parts_by_coordinate(path, parts)
        arrays = {coordinate: part.value for coordinate, part in by_coordinate.items()}
        try:
            return self.assembled(arrays, layout.mesh.shape, layout.placements, whole)
        except ValueError as error:
            raise _misfit(path, parts, layout, error) from None

    def assembled(self, arrays: Mapping[Shape, Array], grid: Shape, placements: Placements, whole: Any) -> Piece:
        """Parts joined by placements; of copies that differ, the one that is farthest from the whole value."""
        copies = [join(arrays, grid, placements, number) for number in range(replica_count(grid, placements))]
        if self._are_equal(copies):
            return Piece(copies[0], grid, placements)
        farthest = max(copies, key=partial(_distance, whole))
        return Piece(farthest, grid, placements, are_copies_equal=False)

    def _by_shapes(self, path: str, parts: tuple[LocalPart, ...], pieces: list[Piece], whole: Any) -> JoinedValue:
        """The value of pieces of which no placement is known, by the shape of the whole value."""
        arrays = [piece.array for piece in pieces]
        found = self._best(arrays, whole)
        if found is None:
            return JoinedValue(arrays[0], parts, "none")
        if not found.are_copies_equal and is_averaged(path, whole.shape):
            return JoinedValue(mean_of(arrays), parts, "mean")
        return _joined_value(found, parts, _method(found))

    def _best(self, arrays: list[Array], whole: Any) -> Piece | None:
        """The guess that makes up the whole value, else one whose copies are equal, else the first."""
        if not is_array(whole):
            return Piece(arrays[0]) if self._are_equal(arrays) else None
        guesses = list(self._guesses(arrays, whole))
        consistent = [guess for guess in guesses if guess.are_copies_equal]
        agreeing = [guess for guess in consistent if self.agree(whole, guess.array)]
        return next(iter([*agreeing, *consistent, *guesses]), None)

    def _guesses(self, arrays: list[Array], whole: Array) -> Iterator[Piece]:
        """The ways in which parts can make up a tensor of the shape of the whole one."""
        count = len(arrays)
        shapes = [array.shape for array in arrays]
        for grid in grids(count, [mesh for mesh in self.meshes if prod(mesh) == count]):
            by_coordinate = dict(zip(product(*map(range, grid)), arrays, strict=True))
            for placements in fitting_placements(shapes, whole.shape, grid):
                yield self.assembled(by_coordinate, grid, placements, whole)

    def _are_equal(self, arrays: Sequence[Array]) -> bool:
        return all(map(partial(self.agree, arrays[0]), arrays[1:]))

    def agree(self, one: Array, other: Array) -> bool:
        """Whether two arrays hold the same values, within the tolerance."""
        rtol, atol = self.tolerance.of(_short_dtype(one), _short_dtype(other))
        return bool(close_arrays(one, other, rtol, atol).same)


def is_averaged(path: str, shape: Shape) -> bool:
    """Whether the ranks may hold different values whose mean is that of the whole batch: losses and gradients."""
    return not shape or path.endswith(".grad")


def _short_dtype(array: Array) -> str:
    return dtype_named(str(array.dtype)).short


def _distance(whole: Any, array: Array) -> float:
    if not is_array(whole) or array.shape != whole.shape:
        return 0.0
    return close_arrays(whole, array, 0.0, 0.0).delta or 0.0


def _joined_value(piece: Piece, parts: tuple[LocalPart, ...], method: JoinMethod) -> JoinedValue:
    return JoinedValue(
        piece.array, parts, method, piece.grid, piece.placements, are_copies_equal=piece.are_copies_equal
    )


def _method(piece: Piece) -> JoinMethod:
    """What the placements that were found mean."""
    if set(piece.placements) - {REPLICATE}:
        return "shapes"
    if piece.are_copies_equal:
        return "copies"
    return "unequal copies"


def _by_mesh(path: str, parts: Sequence[LocalPart]) -> list[list[LocalPart]]:
    """The parts on each mesh, in the order of their ranks; a part without a layout is alone."""
    found: dict[tuple[int, ...], list[LocalPart]] = {}
    for part in parts:
        ranks = (part.rank,) if part.layout is None else part.layout.mesh.ranks
        found.setdefault(ranks, []).append(part)
    bare = [part.rank for part in parts if part.layout is None]
    if bare and len(bare) < len(parts):
        raise RanksError(
            f"the parts of {path!r} do not belong together: some ranks recorded placements,"
            f" and rank {', '.join(map(str, bare))} did not"
        )
    return list(found.values())


def _misfit(path: str, parts: Sequence[LocalPart], layout: PartLayout, error: ValueError) -> RanksError:
    shapes = ", ".join([f"{list(part.value.shape)} on rank {part.rank}" for part in parts])
    placements = ", ".join(map(str, layout.placements))
    return RanksError(
        f"the parts of {path!r} do not belong together: {shapes} cannot be joined by {placements}: {error}"
    )
