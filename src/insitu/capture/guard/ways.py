"""What a guard does at which torch function."""

from __future__ import annotations

from typing import Any

from insitu.capture.calls import FunctionNote
from insitu.capture.modes import skip_when_compiling
from insitu.trace.compare.operation import UNINITIALISED, own_name

# What is done at a function: its outputs are checked, and the autograd nodes that it makes. UNLIKELY ones only make it
# by an overflow, of which little but fp16 is in danger: their nodes are not checked, and their outputs only where an
# input was not checked either. So two unchecked calls never follow each other, and it is plain which one is to blame.
# What comes out of one that HIDES can be finite though an input is not: such inputs are checked there.
OUTPUTS, NODES, UNLIKELY, DIVIDES, HIDES = 1, 2, 4, 8, 16
# Functions that cannot make it, forward or backward: the same numbers, or bounded ones whose slope is at most one.
_HARMLESS = """
    view reshape transpose permute t T mT H mH adjoint swapaxes swapdims movedim moveaxis squeeze unsqueeze flatten
    unflatten ravel view_as reshape_as contiguous detach clone alias split chunk unbind tensor_split hsplit vsplit
    dsplit data grad requires_grad cpu cuda pin_memory zeros_like ones_like relu relu6 hardtanh sigmoid tanh sin cos
    abs neg sign floor ceil round trunc clamp clip max min amax amin maximum minimum dropout
"""
HARMLESS = frozenset(_HARMLESS.split())
# Numbers that are only put elsewhere, whose gradients are added up.
_MOVES = """
    expand expand_as broadcast_to broadcast_tensors getitem select narrow index_select gather take take_along_dim
    cat concat concatenate stack hstack vstack dstack repeat repeat_interleave tile roll flip fliplr flipud rot90 unfold
    embedding diagonal triu tril masked_select meshgrid
"""
MOVES = frozenset(_MOVES.split())
# Of all these, those that leave something out, or bound it.
_HIDING = """
    relu relu6 hardtanh sigmoid tanh sign clamp clip max min amax amin maximum minimum
    getitem select narrow index_select gather take take_along_dim unfold diagonal triu tril masked_select
"""
HIDING = frozenset(_HIDING.split())
_UNLIKELY = """
    add sub radd rsub mul rmul sum mean matmul rmatmul mm bmm addmm baddbmm linear bilinear einsum conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d layer_norm rms_norm group_norm batch_norm gelu silu
"""
RARE = frozenset(_UNLIKELY.split())
DIVIDING = frozenset(("div", "truediv"))  # by a plain number it is unlikely, too
STRETCHING = frozenset(("resize", "resize_as", "set"))  # to memory that holds anything

# What takes numbers out of torch: nobody can follow them any further.
LEAVING = frozenset(f"torch.Tensor.{name}" for name in ("numpy", "tolist", "__array__"))

WAYS: dict[str, int] = {}


def way_of(note: FunctionNote) -> int:
    """What is done at a function that was not met before."""
    last = own_name(note.kind, note.name).strip("_=")
    hides = HIDES if last in HIDING else 0
    way = OUTPUTS | NODES if note.runs_backward else OUTPUTS | NODES | HIDES
    if (last in HARMLESS and not note.runs_backward) or last in UNINITIALISED | STRETCHING:
        way = hides
    elif last in MOVES:
        way = UNLIKELY | hides
    elif last in RARE and not note.in_place:
        way = OUTPUTS | UNLIKELY
    elif last in DIVIDING and not note.in_place:
        way = DIVIDES
    WAYS[note.name] = way
    return way


def changes(note: FunctionNote, args: Any, kwargs: Any) -> bool:
    """Whether a function changes its first argument; what returns that, as `x.to(device)` often does, need not."""
    return bool(args) and (note.in_place or (kwargs or {}).get("inplace") is True)


skip_when_compiling(changes)
