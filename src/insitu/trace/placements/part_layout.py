"""Where the part that one rank holds belongs in the whole tensor: placements on a mesh, as the rank recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

from insitu.errors import RanksError

Shape = tuple[int, ...]
PlacementKind = Literal["shard", "replicate", "partial"]

_KINDS: dict[str, PlacementKind] = {"Shard": "shard", "Replicate": "replicate", "Partial": "partial"}
REDUCTIONS = ("sum", "avg", "max", "min", "product")


@dataclass(frozen=True, slots=True)
class Placement:
    """How a tensor is spread along one dimension of a mesh.

    >>> Placement("shard", dim=1), Placement("replicate"), Placement("partial", reduction="sum")
    (Shard(1), Replicate(), Partial(sum))
    """

    kind: PlacementKind
    dim: int = 0
    reduction: str = ""

    def __repr__(self) -> str:
        if self.kind == "shard":
            return f"Shard({self.dim})"
        if self.kind == "partial":
            return f"Partial({self.reduction})"
        return "Replicate()"


REPLICATE = Placement("replicate")


@dataclass(frozen=True, slots=True)
class Mesh:
    """The ranks of a mesh, the last dimension fastest; `names` are those of its dimensions, if it has names."""

    shape: Shape
    ranks: tuple[int, ...]
    names: tuple[str, ...] = ()

    def coordinates(self) -> list[Shape]:
        """The coordinate of each rank, in the order of `ranks`."""
        return list(product(*map(range, self.shape)))

    def __str__(self) -> str:
        """The sizes with their names, as in `dp 2 × tp 4`."""
        names = self.names or ("",) * len(self.shape)
        return " × ".join([f"{name} {size}".strip() for name, size in zip(names, self.shape, strict=True)])


@dataclass(frozen=True, slots=True)
class PartLayout:
    """Where the part of one rank belongs: one placement for each dimension of the mesh, and its place in the mesh."""

    whole: Shape
    mesh: Mesh
    coordinate: Shape
    placements: tuple[Placement, ...]


def layout_of(path: str, rank: int, facts: Mapping[str, Any]) -> PartLayout | None:
    """The layout in the facts that a rank recorded of a path; None if it recorded none.

    Raises RanksError for a placement that cannot be joined.
    """
    if "mesh" not in facts or facts.get("coordinate") is None:
        return None
    mesh = mesh_of(facts["mesh"])
    placements = tuple([_placement(path, rank, each) for each in facts["placements"]])
    return PartLayout(tuple(facts["global_shape"]), mesh, tuple(facts["coordinate"]), placements)


def mesh_of(facts: Mapping[str, Any]) -> Mesh:
    """A mesh from its facts: its ranks are listed, or follow from the first one and the steps between them.

    >>> mesh_of({"shape": [2, 2], "names": ["dp", "tp"], "first": 4, "strides": [2, 1]}).ranks
    (4, 5, 6, 7)
    """
    shape = tuple(facts["shape"])
    names = tuple(facts["names"])
    if "ranks" in facts:
        return Mesh(shape, tuple(facts["ranks"]), names)
    strides = facts["strides"]
    places = product(*map(range, shape))
    ranks = [facts["first"] + sum(map(int.__mul__, strides, place)) for place in places]
    assert len(ranks) == prod(shape)
    return Mesh(shape, tuple(ranks), names)


def _placement(path: str, rank: int, facts: Mapping[str, Any]) -> Placement:
    """A placement from its facts; a class of torch that is not known here cannot be joined."""
    name = facts["kind"]
    kind = _KINDS.get(name)
    if kind is None:
        raise RanksError(
            f"{path!r} cannot be joined: its placement on rank {rank} is {_placement_text(facts)}, and only Shard,"
            f" Replicate and Partial can be joined. {_WAY_OUT}"
        )
    reduction = facts.get("reduce_op", "")
    if kind == "partial" and reduction not in REDUCTIONS:
        raise RanksError(
            f"{path!r} cannot be joined: its placement on rank {rank} is Partial({reduction}), and the known"
            f" reductions are {', '.join(REDUCTIONS)}. {_WAY_OUT}"
        )
    return Placement(kind, facts.get("dim", 0), reduction)


_WAY_OUT = "Record it without that path, or after `redistribute` to Shard or Replicate"


def _placement_text(facts: Mapping[str, Any]) -> str:
    """A placement of any class: `_StridedShard(dim=0, split_factor=2)`."""
    arguments = ", ".join([f"{name}={value}" for name, value in facts.items() if name != "kind"])
    return f"{facts['kind']}({arguments})"
