"""How parts belong together of which no placement was recorded: by their shapes, and by the shape of the whole.

Plain tensors have no placement: the outputs of data-parallel ranks, and what a model computes from local parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from insitu.trace.placements.layout import REPLICATE, Placement, Shape

MOST_DIMENSIONS = 8  # of tensors whose placements are searched for


def grids(count: int, known: Sequence[Shape] = ()) -> Iterator[Shape]:
    """The meshes that so many ranks can form: one row, those that the run has, then all of two dimensions.

    >>> list(grids(4)), list(grids(3))
    ([(4,), (2, 2)], [(3,)])
    """
    found = [(count,), *known]
    found += [(outer, count // outer) for outer in range(2, count) if count % outer == 0 and count > outer]
    yield from dict.fromkeys(found)


def fitting_placements(shapes: Sequence[Shape], whole: Shape, grid: Shape) -> Iterator[tuple[Placement, ...]]:
    """The placements by which parts of these shapes make up the whole; batches before other dimensions.

    >>> list(fitting_placements([(2, 3), (2, 3)], (4, 3), (2,)))
    [(Shard(0),)]
    >>> list(fitting_placements([(2, 2)] * 4, (4, 2), (2, 2)))
    [(Shard(0), Replicate()), (Replicate(), Shard(0))]
    """
    first = shapes[0]
    if len(first) != len(whole) or len(first) > MOST_DIMENSIONS:
        return
    choices = [*(Placement("shard", dim=dim) for dim in range(len(whole))), REPLICATE]
    for placements in product(choices, repeat=len(grid)):
        if len(grid) == 1:
            fits = _make_up(shapes, whole, placements[0])
        else:
            fits = len(set(shapes)) == 1 and _spread(first, grid, placements) == whole
        if fits:
            yield placements


def _make_up(shapes: Sequence[Shape], whole: Shape, placement: Placement) -> bool:
    """Whether parts in one row make up the whole; along the dimension that is split, they may differ in size."""
    if placement.kind == "replicate":
        return all(shape == whole for shape in shapes)
    dim = placement.dim
    if sum(shape[dim] for shape in shapes if len(shape) == len(whole)) != whole[dim]:
        return False
    return all(_without(shape, dim) == _without(whole, dim) for shape in shapes)


def _without(shape: Shape, dim: int) -> Shape:
    return shape[:dim] + shape[dim + 1 :]


def _spread(part: Shape, grid: Shape, placements: tuple[Placement, ...]) -> Shape:
    """The shape of the whole, if all parts have one shape."""
    sizes = list(part)
    for size, placement in zip(grid, placements, strict=True):
        if placement.kind == "shard":
            sizes[placement.dim] *= size
    return tuple(sizes)
