"""What a guard does at which torch function."""

from __future__ import annotations

from typing import Any

from insitu.capture.calls import FunctionCallee
from insitu.capture.modes import skip_when_compiling
from insitu.trace.operation import Operation, operation

# What is done at a function: its outputs are checked, and the autograd nodes that it makes. UNLIKELY ones only make it
# by an overflow, of which little but fp16 is in danger: their nodes are not checked, and their outputs only where an
# input was not checked either. So two unchecked calls never follow each other, and it is plain which one is to blame.
# What comes out of one that HIDES can be finite though an input is not: such inputs are checked there.
OUTPUTS, NODES, UNLIKELY, DIVIDES, HIDES = 1, 2, 4, 8, 16
# What takes numbers out of torch: nobody can follow them any further.
LEAVING = frozenset(f"torch.Tensor.{name}" for name in ("numpy", "tolist", "__array__"))

WAYS: dict[str, int] = {}


def way_of(callee: FunctionCallee) -> int:
    """What is done at a function that was not met before."""
    way = WAYS[callee.name] = _way(operation(callee.kind, callee.name), callee.in_place)
    return way


def _way(what: Operation, in_place: bool) -> int:
    """What is done at an operation, by how it can produce NaN or Inf."""
    hides = HIDES if what.hides else 0
    if what.risk == "none":
        return hides
    if what.risk == "backward":
        return UNLIKELY | hides
    if what.risk == "overflow" and not in_place:
        return OUTPUTS | UNLIKELY
    if what.risk == "division" and not in_place and not what.is_reflected:
        return DIVIDES
    return OUTPUTS | NODES if what.runs_backward else OUTPUTS | NODES | HIDES


def changes(callee: FunctionCallee, args: Any, kwargs: Any) -> bool:
    """Whether a function changes its first argument; what returns that, as `x.to(device)` often does, need not."""
    return bool(args) and (callee.in_place or (kwargs or {}).get("inplace") is True)


skip_when_compiling(changes)
