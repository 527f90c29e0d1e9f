"""How parts belong together of which no placement was recorded: by their shapes, and by the shape of the whole.

Plain tensors have no placement: the outputs of data-parallel ranks, and what a model computes from local parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from insitu.trace.placements.part_layout import REPLICATE, Placement, Shape

MOST_DIMENSIONS = 8  # of tensors whose placements are searched for


def grids(count: int, known: Sequence[Shape] = ()) -> list[Shape]:
    """The meshes that so many ranks can form: one row, those that the run has, then all of two dimensions.

    >>> grids(4), grids(3)
    ([(4,), (2, 2)], [(3,)])
    """
    divisors = [size for size in range(2, count) if count % size == 0]
    pairs = [(size, count // size) for size in divisors]
    return list(dict.fromkeys([(count,), *known, *pairs]))


def fitting_placements(shapes: Sequence[Shape], whole: Shape, grid: Shape) -> Iterator[tuple[Placement, ...]]:
    """The placements by which parts of these shapes make up the whole; batches before other dimensions.

    >>> list(fitting_placements([(2, 3), (2, 3)], (4, 3), (2,)))
    [(Shard(0),)]
    >>> list(fitting_placements([(2, 2)] * 4, (4, 2), (2, 2)))
    [(Shard(0), Replicate()), (Replicate(), Shard(0))]
    """
    lengths = set(map(len, shapes))
    if lengths != {len(whole)} or len(whole) > MOST_DIMENSIONS:
        return
    choices = [*map(_shard, range(len(whole))), REPLICATE]
    for placements in product(choices, repeat=len(grid)):
        if _spread(shapes, grid, placements) == whole:
            yield placements


def _shard(dim: int) -> Placement:
    return Placement("shard", dim=dim)


def _spread(shapes: Sequence[Shape], grid: Shape, placements: tuple[Placement, ...]) -> Shape | None:
    """The shape of the whole; None if the parts differ in size, unless they do along the only dimension that is split.

    >>> _spread([(2, 3), (1, 3)], (2,), (Placement("shard", dim=0),))
    (3, 3)
    """
    sizes = np.array(shapes, np.int64).reshape(len(shapes), -1)
    first = sizes[0].copy()
    if len(grid) == 1 and placements[0].kind == "shard":
        dim = placements[0].dim
        first[dim] = sizes[:, dim].sum()
        sizes[:, dim] = first[dim]
    elif len(grid) > 1:
        for size, placement in zip(grid, placements, strict=True):
            first[placement.dim] *= size if placement.kind == "shard" else 1
    if (sizes != sizes[0]).any():
        return None
    return tuple(first.tolist())
