"""Where the local part of a distributed tensor belongs: placements, mesh and coordinate, as plain facts.

Nothing here runs a collective: each rank notes what it knows, and `trace.placements` joins the parts afterwards.
"""

from __future__ import annotations

from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

from insitu.capture.torch_internals import LOCAL_TENSOR

Facts = dict[str, Any]

_meshes: WeakKeyDictionary[Any, Facts] = WeakKeyDictionary()


def layout_facts(tensor: Any) -> Facts:
    """Facts about a DTensor, or about the local part that `to_local()` returned; none for other tensors."""
    if hasattr(tensor, LOCAL_TENSOR):
        return _facts(tensor.shape, tensor.device_mesh, tensor.placements)
    return local_layout_facts(tensor)


def local_layout_facts(tensor: Any) -> Facts:
    """Facts about the local part that `to_local()` returned: its node has them. It runs for each recorded tensor."""
    try:
        spec = tensor.grad_fn.dtensor_spec
    except AttributeError:  # mostly
        return {}
    return _facts(spec.shape, spec.mesh, spec.placements)


def _facts(shape: Any, mesh: Any, placements: Any) -> Facts:
    coordinate = mesh.get_coordinate()
    return {
        "global_shape": list(shape),
        "placements": [_placement_facts(placement) for placement in placements],
        "mesh": _mesh_facts(mesh),
        "coordinate": None if coordinate is None else list(coordinate),
    }


def _placement_facts(placement: Any) -> Facts:
    """A placement by its class and by the attributes that the classes of torch have."""
    facts: Facts = {"kind": type(placement).__name__}
    for name in ("dim", "reduce_op", "split_factor"):
        value = getattr(placement, name, None)
        if value is not None:
            facts[name] = value if isinstance(value, int) else str(value)
    return facts


def _mesh_facts(mesh: Any) -> Facts:
    found = _meshes.get(mesh)
    if found is None:
        names = mesh.mesh_dim_names
        found = {
            "shape": list(mesh.shape),
            "names": [] if names is None else list(names),
            **_rank_facts(mesh.mesh),
        }
        _meshes[mesh] = found
    return found


def _rank_facts(ranks: Any) -> Facts:
    """The ranks of a mesh: the first one and the steps between them or, if these are not regular, all of them."""
    flat = ranks.flatten().tolist()
    first = flat[0]
    strides = [_stride(ranks, dim, first) for dim in range(ranks.ndim)]
    coordinates = product(*map(range, ranks.shape))
    regular = [first + sum(map(int.__mul__, strides, coordinate)) for coordinate in coordinates]
    if flat == regular:
        return {"first": first, "strides": strides}
    return {"ranks": flat}


def _stride(ranks: Any, dim: int, first: int) -> int:
    if ranks.shape[dim] == 1:
        return 0
    neighbour = [0] * ranks.ndim
    neighbour[dim] = 1
    return int(ranks[tuple(neighbour)]) - first
