"""How parts belong together of which no placement was recorded: by their shapes, and by the shape of the whole.

Plain tensors have no placement: the outputs of data-parallel ranks, and what a model computes from local parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

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
    >>> _spread([()] * 4, (2, 2), (REPLICATE, REPLICATE))
    ()
    """
    sizes = np.array(shapes, np.int64).reshape(len(shapes), -1)
    splits = [(size, placement.dim) for size, placement in zip(grid, placements, strict=True) if placement != REPLICATE]
    if len(grid) == 1 and splits:
        return _row(sizes, splits[0][1])
    if _differ(sizes):
        return None
    whole = sizes[0].tolist()
    for size, dim in splits:
        whole[dim] *= size
    return tuple(whole)


def _row(sizes: Any, dim: int) -> Shape | None:
    """The shape of parts behind each other along a dimension; None if they differ in size along another one."""
    whole = sizes[0].copy()
    whole[dim] = sizes[:, dim].sum()
    if _differ(np.delete(sizes, dim, axis=1)):
        return None
    return tuple(whole.tolist())


def _differ(sizes: Any) -> bool:
    return bool((sizes != sizes[0]).any())
