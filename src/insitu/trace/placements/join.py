"""Parts of a tensor put together by their placements on a mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from insitu.errors import RanksError
from insitu.trace.placements.part import LocalPart
from insitu.trace.placements.part_layout import Mesh, Placement, Shape

Array = Any
Arrays = Sequence[Array]


def mean_of(arrays: Arrays) -> Array:
    """The mean over the ranks, in the dtype of the parts."""
    return _in_float64(arrays, partial(np.mean, axis=0))


def sum_of(arrays: Arrays) -> Array:
    """The sum over the ranks, in the dtype of the parts."""
    return _in_float64(arrays, partial(np.sum, axis=0))


def _in_float64(arrays: Arrays, reduce: Callable[[Array], Array]) -> Array:
    dtype = arrays[0].dtype
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return np.asarray(reduce(np.stack([array.astype(wide) for array in arrays]))).astype(dtype)


def _extreme(choose: Callable[[Array, Array], Array], arrays: Arrays) -> Array:
    found = arrays[0]
    for array in arrays[1:]:
        found = choose(found, array)
    return found


_REDUCTIONS: dict[str, Callable[[Arrays], Array]] = {
    "sum": sum_of,
    "avg": mean_of,
    "max": partial(_extreme, np.maximum),
    "min": partial(_extreme, np.minimum),
    "product": partial(_extreme, np.multiply),
}


def join(grid: Mapping[Shape, Array], shape: Shape, placements: tuple[Placement, ...], replica: int = 0) -> Array:
    """The whole tensor from its parts by coordinate; of copies, the one with the number `replica`.

    Torch splits a tensor along the first dimension of the mesh first, so the last one is joined first. Raises
    ValueError if the parts do not fit together.

    >>> parts = {(0,): np.zeros((1, 2)), (1,): np.ones((1, 2))}
    >>> join(parts, (2,), (Placement("shard", dim=0),)).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    found = dict(grid)
    for axis in reversed(range(len(shape))):
        outer = dict.fromkeys([coordinate[:axis] for coordinate in found])
        found = {
            place: _along([found[*place, index] for index in range(shape[axis])], placements[axis], replica)
            for place in outer
        }
    return found[()]


def _along(arrays: Arrays, placement: Placement, replica: int) -> Array:
    """The parts along one dimension of the mesh, as one."""
    if placement.kind == "shard":
        return np.concatenate(arrays, axis=placement.dim)
    if placement.kind == "partial":
        return _REDUCTIONS[placement.reduction](arrays)
    return arrays[min(replica, len(arrays) - 1)]


def replica_count(shape: Shape, placements: tuple[Placement, ...]) -> int:
    """How many copies of the whole tensor the ranks hold."""
    sizes = [size for size, placement in zip(shape, placements, strict=True) if placement.kind == "replicate"]
    return max(sizes, default=1)


def parts_by_coordinate(path: str, parts: Sequence[LocalPart]) -> dict[Shape, LocalPart]:
    """The parts on one mesh, by coordinate; raises RanksError if they do not belong together."""
    first = parts[0].layout
    assert first is not None
    found: dict[Shape, LocalPart] = {}
    for part in parts:
        layout = part.layout
        assert layout is not None
        for name, one, other in (
            ("placements", first.placements, layout.placements),
            ("global shapes", list(first.whole), list(layout.whole)),
            ("meshes", str(first.mesh), str(layout.mesh)),
        ):
            if one != other:
                ranks = f"{one} on rank {parts[0].rank}, {other} on rank {part.rank}"
                raise RanksError(f"the parts of {path!r} do not belong together: their {name} are {ranks}")
        if layout.coordinate in found:
            ranks = f"{found[layout.coordinate].rank} and {part.rank}"
            raise RanksError(
                f"the parts of {path!r} do not belong together: ranks {ranks} have the same coordinate"
                f" {layout.coordinate} of the mesh {first.mesh}"
            )
        found[layout.coordinate] = part
    _check_ranks(path, first.mesh, found)
    return found


def _check_ranks(path: str, mesh: Mesh, found: Mapping[Shape, LocalPart]) -> None:
    lacking = [rank for rank, place in zip(mesh.ranks, mesh.coordinates(), strict=True) if place not in found]
    if lacking:
        named = ", ".join(map(str, lacking))
        step = next(iter(found.values())).variable.step
        raise RanksError(
            f"{path!r} cannot be joined at step {step}: it is spread over the mesh {mesh}, and no part was recorded"
            f" on rank{'s' * (len(lacking) > 1)} {named}"
        )
